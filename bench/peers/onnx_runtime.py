"""ONNX Runtime, on models that PyTorch exports once."""
import os

from peers import median_seconds, packages_missing

COMPILED = ()


def missing():
    return packages_missing("onnxruntime", "onnx", "onnxscript", "torch", "transformers")


def version():
    import onnxruntime

    return onnxruntime.__version__


def can(row):
    return row.sizes["model"] in ("vit-base", "bert-base")


def model_file(row_sizes, run):
    return os.path.join(run.folder, f"{row_sizes['model']}-{row_sizes['batch']}.onnx")


def prepare(row, run):
    """Exports the model for this batch, so that every shape is known to the runtime."""
    name = model_file(row.sizes, run)
    if os.path.exists(name):
        return
    import torch
    from peers import pytorch_models as models

    torch.manual_seed(0)
    model, inputs = models.inference(row.sizes["model"], row.sizes["batch"])
    program = torch.onnx.export(model, (inputs,), dynamo=True, verbose=False)
    program.save(name + ".new.onnx", external_data=False)
    os.replace(name + ".new.onnx", name)


def infer(sizes, run):
    """Inputs a second."""
    import numpy
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = run.threads
    session = onnxruntime.InferenceSession(model_file(sizes, run), settings,
                                           providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    rng = numpy.random.default_rng(0)
    inputs = rng.integers(0, 30522, given.shape) if "int" in given.type else \
        rng.uniform(-1, 1, given.shape).astype("float32")
    seconds = median_seconds(lambda: session.run(None, {given.name: inputs}), run.repeats)
    return sizes["batch"] / seconds


WORK = {"infer": infer}
