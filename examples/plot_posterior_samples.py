"""
Samples of the posterior
========================

MEIBP gives one answer, quickly. A sampler started there tells what else would have been possible:
how many features there may be, and which rows share them.
"""

import matplotlib.pyplot as plt
import numpy as np

from ibp import MEIBP, AcceleratedGibbs, plots
from ibp.datasets import make_block_images

X, Z, A = make_block_images(200, noise_std=0.5, random_state=2)
INK, ROSE = "#332288", "#CC6677"

# %%
# From an answer to a chain
# -------------------------
# The chain starts where MEIBP ended, so that little burn-in is needed. On the grey ground are the
# sweeps that are not kept.

start = MEIBP(random_state=0).fit(X)
chain = AcceleratedGibbs(init=start, max_iter=600, burn_in=200, thin=4, random_state=0).fit(X)
print(f"{len(chain.samples_)} samples; MEIBP found {start.n_components_} features")
axes = plots.evidence(chain)

# %%
# How many features?
# ------------------
# The data were made from four. A feature that a few rows have costs little and explains a bit of
# noise: the prior allows for such features, so the posterior has them too, and their number says
# little. Those that a twentieth of the rows has are four in every sample.

n_all = chain.samples_.n_components
n_frequent = [(sample.assignments.mean(axis=0) >= 0.05).sum() for sample in chain.samples_]
figure, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
for shift, label, numbers, colour in (
    (-0.2, "all", n_all, ROSE),
    (0.2, "frequent ones", n_frequent, INK),
):
    counts = np.bincount(numbers, minlength=12)
    ax.bar(np.arange(12) + shift, counts[:12] / counts.sum(), color=colour, width=0.4, label=label)
ax.set_xlim(2.4, 11.6)
ax.set_xticks(range(3, 12))
ax.legend(frameon=False)
ax.set_xlabel("features")
ax.set_ylabel("posterior probability")
ax.spines[["top", "right"]].set_visible(False)

# %%
# Which rows share features?
# --------------------------
# Features have no names that last from one sample to the next, but two rows share some or do not.
# The expected number of features that rows have in common needs no names; beside it is the truth.
# Rows are sorted by their true features.

order = np.lexsort(Z.T[::-1])[::-1]
shared = np.mean(
    [sample.assignments.astype(float) @ sample.assignments.T for sample in chain.samples_], axis=0
)
truth = Z.astype(float) @ Z.T
figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.5), layout="constrained")
for ax, title, values in zip(axes, ("expected", "true"), (shared, truth), strict=True):
    picture = ax.imshow(values[order][:, order], cmap="Purples", vmin=0, vmax=4)
    ax.set_title(title, fontsize=10)
    ax.set_xlabel("row")
axes[0].set_ylabel("row")
figure.colorbar(picture, ax=axes, label="features in common")
plt.show()
