"""llama.py - llama.cpp, through llama-cpp-python's bindings: ids, logits, greedy text, vectors."""
import ctypes

import llama_cpp as lib
import numpy as np
import torch

CONTEXT = 512
SILENT = lib.llama_log_callback(lambda level, text, user: None)
lib.llama_log_set(SILENT, ctypes.c_void_p(0))
lib.llama_backend_init()


class Model:
    """A GGUF file, opened; keys and values of f32, so that nothing is rounded twice."""

    def __init__(self, path, pooling=False, rank=False):
        self.model = lib.llama_model_load_from_file(path.encode(),
                                                    lib.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        params = lib.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = CONTEXT
        params.n_threads = params.n_threads_batch = 1
        params.type_k = params.type_v = 0
        params.flash_attn_type = 0
        if pooling:
            params.embeddings = True
        if rank:
            params.pooling_type = lib.LLAMA_POOLING_TYPE_RANK
        self.context = lib.llama_init_from_model(self.model, params)
        self.vocab = lib.llama_model_get_vocab(self.model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)

    def ids(self, text, special=True):
        data = text.encode()
        out = (ctypes.c_int32 * (len(data) + 8))()
        count = lib.llama_tokenize(self.vocab, data, len(data), out, len(out), special, True)
        return list(out[:count])

    def decode(self, ids, begin=0):
        batch = lib.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i] = token, begin + i
            batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 1, 0, 1
        status = lib.llama_decode(self.context, batch)
        lib.llama_batch_free(batch)
        if status:
            raise RuntimeError(f"llama_decode: {status}")

    def clear(self):
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)

    def logits(self, ids):
        self.clear()
        self.decode(ids)
        size = lib.llama_vocab_n_tokens(self.vocab)
        return torch.stack([torch.from_numpy(np.ctypeslib.as_array(
            lib.llama_get_logits_ith(self.context, i), (size,)).copy()) for i in range(len(ids))])

    def greedy(self, ids, count):
        """The likeliest tokens, until one ends the text."""
        self.clear()
        self.decode(ids)
        size, out, last = lib.llama_vocab_n_tokens(self.vocab), [], len(ids) - 1
        while len(out) < count:
            logits = np.ctypeslib.as_array(lib.llama_get_logits_ith(self.context, last), (size,))
            token = int(logits.argmax())
            if lib.llama_vocab_is_eog(self.vocab, token):
                break
            out.append(token)
            self.decode([token], len(ids) + len(out) - 1)
            last = 0
        return out

    def vector(self, ids, size=0):
        """Of a text; size: classes, of a classifier."""
        self.decode(ids)
        size = size or lib.llama_model_n_embd(self.model)
        return torch.from_numpy(np.ctypeslib.as_array(
            lib.llama_get_embeddings_seq(self.context, 0), (size,)).copy())


def quantise(source, target, kind, pure=True):
    """kind: llama.cpp's number of a file type."""
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.pure, params.allow_requantize = kind, 1, pure, True
    status = lib.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params))
    if status:
        raise RuntimeError(f"llama_model_quantize: {status}")
