#!/usr/bin/env python3
"""make-series.py - a noisy, non-linear series with two seasons, as CSV, for
docs/recipes/forecasting.md. Standard library only; the same rows on every machine.

    tools/make-series.py > series.csv            6,000 rows: hour,load

A Mackey-Glass equation (Mackey and Glass 1977; delay 17, step 1, its own small noise) stands for
what is not linear; a daily season whose height it decides, a weekly one and noise of measurement
are added:

    x(t+1) = 0.9 x(t) + 0.2 x(t-17) / (1 + x(t-17)^10) + 0.004 e1(t)
    load(t) = 100 + 80 (x(t) - 0.9) + 40 x(t)^2 s(t, 24) + 6 s(t, 168) + 3 e2(t)

with s(t, n) = sin(2 pi t / n) / 2 and e1, e2 standard normal."""
import math
import random
import sys

ROWS, SETTLE, DELAY = 6000, 1000, 17


def season(t, n):
    return math.sin(2 * math.pi * t / n) / 2


def main():
    draw = random.Random(1977)
    x = [1.2 + 0.1 * math.sin(i) for i in range(DELAY + 1)]
    out = sys.stdout.write
    out("hour,load\n")
    for t in range(-SETTLE, ROWS):
        late = x[-1 - DELAY]
        x.append(0.9 * x[-1] + 0.2 * late / (1 + late**10) + 0.004 * draw.gauss(0, 1))
        x.pop(0)
        noise = draw.gauss(0, 1)
        if t >= 0:
            load = 100 + 80 * (x[-1] - 0.9) + 40 * x[-1] ** 2 * season(t, 24)
            out(f"{t},{load + 6 * season(t, 168) + 3 * noise:.2f}\n")


main()
