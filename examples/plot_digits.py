"""
Strokes in handwritten digits
=============================

Rows are small pictures of digits, columns are pixels. A binary feature is then a piece of ink that
a picture has or does not have. Which pieces do people's digits share?
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from ibp import MEIBP, plots

digits = load_digits()
X = digits.data / 16.0
print(f"{X.shape[0]} pictures of {X.shape[1]} pixels")

# %%
# Fit
# ---
# Empty paper is zero and ink can only be added, so no offset is needed. Without a limit MEIBP would
# find many more features, finer ones; twenty are easier to look at. A fit at its limit warns, and
# knows what one more feature would gain.
#
# Pixels at the border hardly ever have ink. The fit warns that such columns will not count for
# much, which is as it should be where all columns have the same unit.

warnings.filterwarnings("ignore", message="The variances of X's columns")
warnings.filterwarnings("ignore", message="n_components=20 is all that this fit may have")
model = MEIBP(20, fit_intercept=False, random_state=0).fit(X)
print(f"{model.n_components_} features after {model.n_iter_} sweeps")
print(f"one more would gain {model.limit_gain_:.0f} nats of evidence")

# %%
# The features
# ------------
# The label of a feature is its number and the part of the pictures that have it. Nobody told the
# model that pixels have neighbours: that most features are one or two compact pieces of stroke is
# a find.

axes = plots.features(model, image_shape=(8, 8))

# %%
# How a digit is put together
# ---------------------------
# Each row's features were found by maximising a submodular function. Here is what they make of a
# three and of a zero.

for row in (3, 0):
    plots.reconstruction(model, X, row, image_shape=(8, 8))

# %%
# What is lost? The features explain most of the variance of the pixels, and not the writer's
# pressure: a stroke is there or not.

rebuilt = model.inverse_transform(model.assignments_)
explained = 1.0 - ((X - rebuilt) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum()
print(f"{explained:.0%} of the variance about the mean digit is explained")

# %%
# How the fit went
# ----------------
# The evidence, a lower bound, rises with every sweep. It is also what decides how many features
# are worth their while, and which moves between the sweeps are kept: at the limit, weak features
# are exchanged for better ones.

kept, times = np.unique(model.history_["move"][model.history_["move"] != ""], return_counts=True)
print("moves that were kept:", dict(zip(kept.tolist(), times.tolist(), strict=True)))
axes = plots.evidence(model)
plt.show()
