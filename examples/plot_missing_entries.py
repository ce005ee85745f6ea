"""
Filling in what is missing
==========================

NaN means missing, and there is nothing to prepare: a fit uses the entries that are there, and
``impute`` fills the others with what the features say.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import KNNImputer, SimpleImputer

from ibp import MEIBP
from ibp.datasets import make_block_images

X, Z, A = make_block_images(500, noise_std=0.3, random_state=0)
rng = np.random.default_rng(0)
hidden = rng.random(X.shape) < 0.5
X_seen = np.where(hidden, np.nan, X)
print(f"{hidden.mean():.0%} of {X.size} pixels are hidden")

# %%
# Fit to what can be seen
# -----------------------

model = MEIBP(random_state=0).fit(X_seen)
print(f"{model.n_components_} features found, {len(A)} are true")
filled = {
    "column means": SimpleImputer().fit_transform(X_seen),
    "five neighbours": KNNImputer().fit_transform(X_seen),
    "features": model.impute(X_seen),
}

# %%
# Was it worth it?
# ----------------
# The hidden pixels are known to us, so errors can be counted. The mean of a column is what one
# would guess knowing nothing of the row; nobody can do better than the noise. The data were made
# as the model thinks that data are made, so it should come out well, and does: the error is a tenth
# more than the noise. Where data are not sums of things that are there or not, other fillers may
# do better; in scikit-learn's handwritten digits, neighbours do. Hide some entries and look.

errors = {name: np.sqrt(np.mean((values - X)[hidden] ** 2)) for name, values in filled.items()}
figure, ax = plt.subplots(figsize=(6, 1.8), layout="constrained")
bars = ax.barh(list(errors), list(errors.values()), color=["0.7", "0.7", "#332288"], height=0.6)
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.axvline(0.3, color="#CC6677", linewidth=1.5)
ax.annotate(
    "noise",
    (0.3, -0.55),
    color="#CC6677",
    ha="center",
    va="bottom",
    fontsize=9,
    annotation_clip=False,
)
ax.invert_yaxis()
ax.set_xlabel("root mean square error of the hidden pixels")
ax.spines[["top", "right"]].set_visible(False)

# %%
# Pictures of it
# --------------
# Blue pixels are hidden.

shown = range(8)
lines = {"true": X, "seen": X_seen, **filled}
figure, axes = plt.subplots(len(lines), len(shown), figsize=(7, 4.6), layout="constrained")
palette = plt.get_cmap("Greys").with_extremes(bad="#88CCEE")
for line, (label, values) in zip(axes, lines.items(), strict=True):
    for ax, row in zip(line, shown, strict=True):
        ax.imshow(values[row].reshape(6, 6), cmap=palette, vmin=-0.3, vmax=1.3)
        ax.set_xticks([])
        ax.set_yticks([])
    line[0].set_ylabel(label, rotation=0, ha="right", va="center")

# %%
# Rows with less to go by
# -----------------------
# The features of a row come from the entries that are left of it. The fewer there are, the worse
# its guesses.

left = np.arange(2, 31, 4)
errors_by_left = []
for n_left in left:
    few = np.full_like(X, np.nan)
    for row in range(len(X)):
        keep = rng.permutation(36)[:n_left]
        few[row, keep] = X[row, keep]
    wrong = np.isnan(few)
    errors_by_left.append(np.sqrt(np.mean((model.impute(few) - X)[wrong] ** 2)))
figure, ax = plt.subplots(figsize=(5.5, 2.8), layout="constrained")
ax.plot(left, errors_by_left, "o-", color="#332288")
ax.axhline(0.3, color="#CC6677", linewidth=1.5)
ax.set_ylim(bottom=0.25)
ax.set_xlabel("pixels left of 36")
ax.set_ylabel("error of the others")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
