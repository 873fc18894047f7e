"""Trains a GPT, stops, goes on and writes; trains on pictures, names one, shows what it looked at.

    python3 train_and_look.py novel.txt photos cat.png runs      (photos: a folder for each class)
"""
import sys

import qkv

text, photos, picture, out = sys.argv[1:]
settings: dict = dict(data=text, out=out + "/gpt", tokenizer="char", model="nano", length=32,
                      steps=60)


def on_event(event):
    if event.kind == "eval":
        print("step %d: held out %.3f" % (event.step, event.metrics["loss"]))
    return event.kind != "step" or event.step < 30  # False saves and stops


print("stopped after", qkv.train("lm", on_event=on_event, **settings).step)
print("ended after", qkv.train("lm", resume=True, **settings).step)  # to the same bits
gpt = qkv.Model(out + "/gpt")
print("the" + gpt.generate("the", tokens=60, seed=1))

qkv.train("classify", data=photos, out=out + "/vit", type="vit", model="nano", size=16, steps=60)
vit = qkv.Model(out + "/vit")
print(picture, vit.classify(picture).probabilities)
vit.look(picture).draw(out + "/seen.png")  # attention over the picture
gpt.look("the cat sat").page(out + "/heads.html")  # every head, to explore
