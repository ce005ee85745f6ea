"""
Loud and soft notes
===================

In :ref:`sphx_glr_gallery_plot_spectra.py` every note is as loud as always. Here a pianist plays:
notes are on or off and, when they are on, louder or softer. Binary codes need several features for
one note; weighted codes need one, and say how loud it was.
"""

import matplotlib.pyplot as plt
import numpy as np

from ibp import MEIBP
from ibp.agreement import match_codes

# %%
# A recording
# -----------
# Five notes with four harmonics each, in 400 steps. The last is an organ's: it has one loudness.

rng = np.random.default_rng(0)
frequencies = np.linspace(100, 2000, 160)
pitches = [220.0, 261.6, 293.7, 329.6, 392.0]
notes = np.zeros((len(pitches), frequencies.size))
for note, pitch in zip(notes, pitches, strict=True):
    for harmonic in range(1, 5):
        note += 0.7**harmonic * np.exp(-0.5 * ((frequencies - harmonic * pitch) / 12.0) ** 2)
played = rng.random((400, len(pitches))) < 0.35
loudness = rng.gamma(6.0, 1.0 / 6.0, played.shape)
loudness[:, -1] = 1.0
X = (played * loudness) @ notes + rng.normal(0.0, 0.05, (400, frequencies.size))

# %%
# With and without weights
# ------------------------
# The evidence tells which model the data prefer.

binary = MEIBP(random_state=0).fit(X)
weighted = MEIBP(codes="weighted", random_state=0).fit(X)
for name, model in (("yes or no", binary), ("weighted", weighted)):
    print(f"{name}: {model.n_components_} features, evidence {model.evidence_:,.0f}")

# %%
# What the weights say
# --------------------
# Each feature found beside the note it is most like, row by row. The organ's weights are all one.

index, similarity = match_codes((played * loudness), weighted.codes_)
figure, axes = plt.subplots(1, len(pitches), figsize=(11, 2.6), sharey=True, layout="constrained")
for axis, note, k in zip(axes, range(len(pitches)), index, strict=True):
    axis.plot([0, 3], [0, 3], color="0.8")
    axis.plot(played[:, note] * loudness[:, note], weighted.codes_[:, k], ".", markersize=3)
    spread = weighted.weight_std_[k]
    axis.set(title=f"{pitches[note]:.0f} Hz, spread {spread:.2f}", xlabel="played")
axes[0].set_ylabel("found")
print("similarity to the notes", similarity.round(2))
