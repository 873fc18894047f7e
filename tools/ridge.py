#!/usr/bin/env python3
"""ridge.py - a ridge autoregression, to evaluate a forecaster by: every row of the horizon from the
same window of rows. Needs NumPy; the qkv commands do not.

    tools/ridge.py --data train.csv --test test.csv --column load --context 168 --horizon 24

Windows start at every row. The penalty is chosen from powers of ten on a tail of the training rows
(--tail, a share), once for all rows of the horizon; the fit is then made again on all training
rows. The test file begins with rows that are only looked back on (--lead, else the context).
Prints mean squared and absolute errors on the test windows, and of the naive forecasts."""
import argparse
import csv

import numpy as np


def read(path, column):
    with open(path, newline="") as f:
        return np.array([float(row[column]) for row in csv.DictReader(f)])


def windows(y, first, n, h):
    """All windows whose horizon begins at `first` or later: (count, n), (count, h)."""
    starts = np.arange(first, len(y) - h + 1)
    return (np.stack([y[s - n:s] for s in starts]), np.stack([y[s:s + h] for s in starts]))


def fit(x, y, penalty):
    """Coefficients with an intercept that is not penalised."""
    mx, my = x.mean(0), y.mean(0)
    a = (x - mx).T @ (x - mx) + penalty * len(x) * np.eye(x.shape[1])
    w = np.linalg.solve(a, (x - mx).T @ (y - my))
    return w, my - mx @ w


def mse(model, x, y):
    return ((x @ model[0] + model[1] - y) ** 2).mean()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", required=True)
    p.add_argument("--test", required=True)
    p.add_argument("--column", required=True)
    p.add_argument("--context", type=int, required=True)
    p.add_argument("--horizon", type=int, default=24)
    p.add_argument("--season", type=int, default=0)
    p.add_argument("--lead", type=int, default=0)
    p.add_argument("--tail", type=float, default=0.15)
    o = p.parse_args()
    train, test, n, h = read(o.data, o.column), read(o.test, o.column), o.context, o.horizon
    mean, std = train.mean(), train.std()
    train, test = (train - mean) / std, (test - mean) / std
    lead = max(o.lead, n)
    cut = len(train) - int(o.tail * len(train))
    early, late = windows(train[:cut], n, n, h), windows(train, cut, n, h)
    tried = {10.0**k: mse(fit(*early, 10.0**k), *late) for k in range(-7, 3)}
    penalty = min(tried, key=tried.get)
    x, y = windows(test, lead, n, h)
    model = fit(*windows(train, n, n, h), penalty)
    error = (x @ model[0] + model[1] - y) * std
    print(f"penalty {penalty:g}  mse on the tail {tried[penalty] * std**2:.4f}")
    print(f"ridge        mse {(error**2).mean():.4f}  mae {abs(error).mean():.4f}  "
          f"windows {len(x)}")
    print(f"persistence  mse {((x[:, -1:] - y)**2).mean() * std**2:.4f}")
    if o.season:
        back = o.season * (np.arange(h) // o.season + 1)
        starts = np.arange(lead, len(test) - h + 1)[:, None] + np.arange(h)
        print(f"seasonal     mse {((test[starts - back] - y)**2).mean() * std**2:.4f}")


main()
