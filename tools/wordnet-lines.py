#!/usr/bin/env python3
"""WordNet's entries as lines of lower-case words and punctuation, apart as in SST-2: the words of
an entry, a colon, what they mean, examples.

    tools/wordnet-lines.py /usr/share/wordnet > lines.txt     the folder: Debian's wordnet-base
"""
import re
import sys


def line_of(entry):
    head, _, meaning = entry.partition(" | ")
    fields = head.split()
    names = [re.sub(r"\(.*\)", "", name).replace("_", " ")
             for name in fields[4:4 + 2 * int(fields[3], 16):2]]
    text = f"{' , '.join(names)} : {meaning}".lower()
    text = re.sub(r"([.,;:!?()\"`])", r" \1 ", text)
    text = re.sub(r"(n't|'s|'re|'ve|'ll|'d|'m)\b", r" \1", text)
    return " ".join(text.split())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for part in ("adj", "adv", "verb", "noun"):
        with open(f"{sys.argv[1]}/data.{part}", encoding="latin-1") as file:
            for entry in file:
                if not entry.startswith("  "):  # the licence
                    print(line_of(entry))


if __name__ == "__main__":
    main()
