"""
A face under several lamps
==========================

Light adds up: a photograph under two lamps is the sum of the photographs under each, times how
bright each lamp is. That is the model of weighted codes. Here a face is cut in clay, lit by five
lamps that are switched on and off and dimmed, and photographed 300 times. Nobody wrote down which
lamps were on.
"""

import matplotlib.pyplot as plt
import numpy as np

from ibp import MEIBP
from ibp.agreement import match_codes

# %%
# A face of clay
# --------------
# A height for every point: a head with a nose, brows, cheeks, eyes and a mouth.

side = 32
x, y = np.meshgrid(np.linspace(-1.1, 1.1, side), np.linspace(-1.25, 1.25, side))


def bump(across, down, width, length, height):
    return height * np.exp(-(((x - across) / width) ** 2) - ((y - down) / length) ** 2)


head = np.sqrt(np.clip(1.0 - x**2 - (0.8 * y) ** 2, 0.0, None))
height = head + bump(0.0, 0.15, 0.13, 0.3, 0.35) + bump(0.0, 0.62, 0.3, 0.09, 0.12)
for across in (-0.38, 0.38):
    height += bump(across, -0.42, 0.3, 0.09, 0.12) - bump(across, -0.2, 0.18, 0.11, 0.2)
    height += bump(across, 0.28, 0.24, 0.24, 0.1)

# %%
# Five lamps
# ----------
# Clay is as bright as it faces a lamp, and dark where it turns away.

slope_down, slope_across = np.gradient(height, y[1, 0] - y[0, 0], x[0, 1] - x[0, 0])
normals = np.stack([-slope_across, -slope_down, np.ones_like(height)])
normals /= np.linalg.norm(normals, axis=0)
directions = np.array([[-2, 0, 1], [2, 0, 1], [0, -2, 1], [0, 2, 1], [0, 0, 1]], dtype=float)
directions /= np.linalg.norm(directions, axis=1, keepdims=True)
lit = np.clip(np.einsum("lc,chw->lhw", directions, normals), 0.0, None) * (head > 0)
lamps = lit.reshape(len(directions), -1)

rng = np.random.default_rng(0)
on = rng.random((300, len(lamps))) < 0.4
brightness = on * rng.gamma(8.0, 1.0 / 8.0, on.shape)
photographs = 0.1 + brightness @ lamps + rng.normal(0.0, 0.03, (300, side * side))

# %%
# Which lamps are there?
# ----------------------

model = MEIBP(codes="weighted", random_state=0).fit(photographs)
yes_or_no = MEIBP(moves=False, random_state=0).fit(photographs)
print(f"with weights {model.n_components_} features, evidence {model.evidence_:,.0f}")
print(f"without {yes_or_no.n_components_} features, evidence {yes_or_no.evidence_:,.0f}")

index, similarity = match_codes(brightness, model.codes_)
print("brightness found, correlation with the truth:", similarity.round(2))

several = np.flatnonzero(on.sum(axis=1) >= 2)  # photographs under more than one lamp
figure, axes = plt.subplots(3, len(lamps), figsize=(9, 5.6), layout="constrained")
for column, (lamp, k) in enumerate(zip(lamps, index, strict=True)):
    images = (photographs[several[column]], lamp, model.components_[k])
    for axis, image in zip(axes[:, column], images, strict=True):
        axis.imshow(image.reshape(side, side), cmap="gray")
        axis.set(xticks=[], yticks=[])
    axes[2, column].set_xlabel(f"weights vary by {model.weight_std_[k]:.0%}")
for axis, name in zip(axes[:, 0], ("photographs", "lamps", "features found"), strict=True):
    axis.set_ylabel(name)

# %%
# Turning a lamp down
# -------------------
# Codes are amounts, so a photograph can be lit anew.

codes = model.transform(photographs[:1])
brightest = int(np.argmax(codes[0]))
figure, axes = plt.subplots(1, 4, figsize=(9, 2.6), layout="constrained")
for axis, share in zip(axes, (1.0, 0.6, 0.3, 0.0), strict=True):
    dimmed = codes.copy()
    dimmed[:, brightest] *= share
    axis.imshow(
        model.inverse_transform(dimmed).reshape(side, side),
        cmap="gray",
        vmin=0.0,
        vmax=photographs[0].max(),
    )
    axis.set(xticks=[], yticks=[], title=f"brightest lamp at {share:.0%}")
