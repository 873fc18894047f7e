"""CTranslate2, on models of transformers with random weights that it converts once."""
import os
import time
from statistics import median

from peers import median_seconds, packages_missing

COMPILED = ()
COMPUTE = {"f32": "float32", "int8": "int8"}
WARM_UPS = 2


def missing():
    return packages_missing("ctranslate2", "torch", "transformers")


def version():
    import ctranslate2

    return ctranslate2.__version__


def can(row):
    return row.sizes["weights"] in COMPUTE


def folder(work, run):
    return os.path.join(run.folder, "ct2-translate" if work == "translate" else "ct2-gpt2")


def tokens(count):
    return [str(i) for i in range(count)]


def prepare(row, run):
    """Writes the model in f32; other types are made of it when it is loaded."""
    name = folder(row.work, run)
    if os.path.exists(os.path.join(name, "model.bin")):
        return
    import torch
    from ctranslate2.converters import transformers as converters
    from peers import pytorch_models as models

    torch.manual_seed(0)
    translates = row.work == "translate"
    if translates:
        model = models.base_transformer().eval()
        spec = converters.MarianMTLoader().get_model_spec(model)
        words = tokens(model.config.vocab_size - 1)  # the padding's row is left out
        spec.register_source_vocabulary(words)
        spec.register_target_vocabulary(words)
        spec.config.decoder_start_token = "0"
        spec.config.bos_token = spec.config.eos_token = "0"
        spec.config.unk_token = "1"
    else:
        model = models.gpt2(2048).eval()
        spec = converters.GPT2Loader().get_model_spec(model)
        spec.register_vocabulary(tokens(model.config.vocab_size))
        spec.config.bos_token = spec.config.eos_token = "0"
        spec.config.unk_token = "1"
    spec.validate()
    spec.optimize()
    os.makedirs(name, exist_ok=True)
    spec.save(name)


def opened(kind, work, sizes, run):
    import ctranslate2

    make = getattr(ctranslate2, kind)
    return make(folder(work, run), compute_type=COMPUTE[sizes["weights"]], inter_threads=1,
                intra_threads=run.threads)


def texts(count, length):
    return [[str(2 + (31 * i + 7 * j) % 20000) for j in range(length)] for i in range(count)]


def decode(sizes, run):
    """Tokens a second of all texts, greedily."""
    generator = opened("Generator", "decode", sizes, run)
    batch, seconds = sizes["batch"], []
    count = run.repeats + WARM_UPS
    start = [time.perf_counter()]

    def on_token(step):
        if step.batch_id == 0:
            seconds.append(time.perf_counter() - start[0])
            start[0] = time.perf_counter()
        return False

    generator.generate_batch(texts(batch, sizes["prompt"]), max_length=count, min_length=count,
                             sampling_topk=1, include_prompt_in_result=False, callback=on_token)
    assert len(seconds) == count
    return batch / median(seconds[WARM_UPS:])


def prompt(sizes, run):
    generator = opened("Generator", "prompt", sizes, run)
    text = texts(1, sizes["length"])

    def read():
        generator.generate_batch(text, max_length=1, sampling_topk=1,
                                 include_prompt_in_result=False)

    return sizes["length"] / median_seconds(read, run.repeats, 1)


def translate(sizes, run):
    """Tokens a second of the best translations; none ends early."""
    translator = opened("Translator", "translate", sizes, run)
    count, length = sizes["sentences"], sizes["length"]
    text = texts(count, length)

    def search():
        out = translator.translate_batch(text, beam_size=sizes["beam"], max_batch_size=0,
                                         max_decoding_length=length, min_decoding_length=length)
        assert all(len(result.hypotheses[0]) == length for result in out)

    return count * length / median_seconds(search, run.repeats, 1)


WORK = {"decode": decode, "prompt": prompt, "translate": translate}
