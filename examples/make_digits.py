#!/usr/bin/env python3
"""Writes scikit-learn's digits (1,797 images of 8 x 8) as a CSV for vision.cpp: 64 gray values and the class per line.

usage: make_digits.py digits.csv   (needs scikit-learn)
"""
import sys

from sklearn.datasets import load_digits

images, classes = load_digits(return_X_y=True)
with open(sys.argv[1], "w") as file:
    for image, label in zip(images, classes):
        file.write(",".join(f"{value:g}" for value in image) + f",{label}\n")
