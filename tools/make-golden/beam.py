"""tests/golden/beam.safetensors: what generate of transformers finds with the Marian models of
tests/golden/models.
Run: python tools/make-golden/beam.py

For case C, counted from 0:
C.options    [model, beams, early_stopping (0: false, 1: true, 2: never), max_length,
             max_new_tokens, forced_eos_token_id, renormalize_logits], -1 or 0: not given
C.penalty    length_penalty
C.ends, C.banned, C.source, C.offsets    token ids; sentence i is source[offsets[i]:offsets[i+1]]
C.ids        (sentences, beams, longest) answers without the first input, -1 behind the end
C.scores     (sentences, beams); of one beam, which generate does not score: sum log p / length

Every answer was the same in single and in double precision."""

import torch
from safetensors.torch import save_file
from transformers import GenerationConfig, MarianMTModel

MODELS = ["marian", "marian-separate"]
V, PAD, START = 61, 7, 7
EARLY = [False, True, "never"]

CASES = [  # of (model, beams, penalty, sentences), and what is not the default
    (1, 4, 1.0, 5, {}),
    (0, 1, 1.0, 5, {}),
    (1, 1, 1.0, 4, dict(max_length=9)),
    (0, 2, 1.0, 7, dict(early=1)),
    (1, 4, 0.6, 6, dict(early=2)),
    (1, 5, 0.0, 4, dict(forced=5, max_length=12)),
    (1, 6, 2.0, 4, dict(ends=[5, 33])),
    (0, 4, -1.0, 4, dict(ends=[5, 11], early=2)),
    (1, 8, 1.3, 3, dict(banned=[7, 3, 19], renormalize=1, forced=5)),
    (0, 4, 1.0, 6, dict(banned=[7], forced=5, max_length=7)),
    (1, 3, 1.0, 1, dict(max_new=1)),
    (1, 12, 0.8, 3, dict(max_new=20, ends=[17, 11, 44, 5], early=1)),
    (1, 4, 1.0, 9, dict(ends=[5, 30], renormalize=1, banned=[7], early=2)),
    (1, 2, 0.5, 12, dict(ends=[50, 31, 5], forced=31)),
]


def answers(model, ids, mask, config):
    out = model.generate(ids, attention_mask=mask, generation_config=config)
    sequences = out.sequences[:, 1:]
    if config.num_beams > 1:
        return sequences, out.sequences_scores
    scores = []
    for i, row in enumerate(sequences.tolist()):
        ends = [k for k, id in enumerate(row) if id in config.eos_token_id]
        count = ends[0] + 1 if ends else len(row)
        terms = [out.logits[k][i].log_softmax(-1)[row[k]] for k in range(count)]
        scores.append(torch.stack(terms).sum() / count)
    return sequences, torch.stack(scores)


def case(number, out):
    which, beams, penalty, count, extra = CASES[number]
    model = MarianMTModel.from_pretrained(f"tests/golden/models/{MODELS[which]}").eval()
    model.generation_config = GenerationConfig()  # nothing comes from there
    sources = [torch.randint(V, (n,)) for n in torch.randint(1, 20, (count,)).tolist()]
    longest = max(map(len, sources))
    ids = torch.full((count, longest), PAD)
    mask = torch.zeros_like(ids)
    for i, s in enumerate(sources):
        ids[i, :len(s)] = s
        mask[i, :len(s)] = 1
    ends, banned = extra.get("ends", [5]), extra.get("banned", [])
    length = dict(max_new_tokens=extra["max_new"]) if "max_new" in extra else dict(
        max_length=extra.get("max_length", 24))
    config = GenerationConfig(
        num_beams=beams, num_return_sequences=beams, length_penalty=penalty, do_sample=False,
        early_stopping=EARLY[extra.get("early", 0)], eos_token_id=ends, pad_token_id=PAD,
        decoder_start_token_id=START, forced_eos_token_id=extra.get("forced"),
        bad_words_ids=[[b] for b in banned] or None,
        renormalize_logits=bool(extra.get("renormalize")), return_dict_in_generate=True,
        output_scores=True, output_logits=True, **length)
    sequences, scores = answers(model, ids, mask, config)
    model.double()
    wide, wide_scores = answers(model, ids, mask, config)
    assert torch.equal(sequences, wide), number
    assert torch.allclose(scores.double(), wide_scores.double(), rtol=1e-5, atol=1e-5), number
    lengths = set()
    for row in sequences:
        end = [k for k, id in enumerate(row.tolist()) if id in ends]
        if end:
            row[end[0] + 1:] = -1
        lengths.add(int((row >= 0).sum()))
    print(number, sorted(lengths))
    sources = [s.to(torch.int32) for s in sources]
    offsets = [0]
    for s in sources:
        offsets.append(offsets[-1] + len(s))
    options = [which, beams, extra.get("early", 0), length.get("max_length", 0),
               length.get("max_new_tokens", 0), extra.get("forced", -1),
               extra.get("renormalize", 0)]
    for name, value in dict(options=options, ends=ends, banned=banned, offsets=offsets).items():
        out[f"{number}.{name}"] = torch.tensor(value, dtype=torch.int32)
    out[f"{number}.penalty"] = torch.tensor([penalty], dtype=torch.float32)
    out[f"{number}.source"] = torch.cat(sources)
    out[f"{number}.ids"] = sequences.reshape(count, beams, -1).to(torch.int32).contiguous()
    out[f"{number}.scores"] = wide_scores.reshape(count, beams).float()


torch.manual_seed(12)
golden = {}
for number in range(len(CASES)):
    case(number, golden)
save_file(golden, "tests/golden/beam.safetensors")
