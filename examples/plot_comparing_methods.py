"""
Comparing methods on your data
==============================

Which method predicts best what it has not seen, and how soon? ``ibp.comparison.compare`` hides a
fraction of the columns in half of the rows, fits each method to the rest, and scores its
predictions while it runs. On the command line, ``ibp compare`` does the same with a file.
"""

import matplotlib.pyplot as plt

from ibp import plots
from ibp.comparison import compare
from ibp.datasets import make_block_images

# %%
# A small contest
# ---------------
# Noisy sums of four pictures, and at most twenty seconds for all fits together. Methods go by the
# labels of ``ibp.METHODS``; ``meibp-default`` is ``MEIBP`` as it comes, the others have the
# settings of the paper's comparison.

X, Z, A = make_block_images(300, noise_std=0.4, random_state=0)
methods = ["meibp-default", "meibp", "i-vibp", "aibp", "inmf", "bnmf"]
result = compare(X, methods, n_components=6, n_restarts=3, time_limit=20, random_state=0)

# %%
# The score against time
# ----------------------
# The strong line of each colour is the restart with the median score. A full dot is a fit that came
# to its own end; a hollow one was cut off by the time limit. What MEIBP does by default before its
# first sweep, the search for a start, is most of its work: here it is done after one.

axes = plots.comparison(result)

# %%
# The ranking
# -----------
# Seconds on a logarithmic scale, and a small problem with known binary features: do not read more
# into the order than that. BNMF has real codes in place of zeros and ones, and so more to get
# wrong; starts matter for some more than the method does, which the spread tells.

print(f"{'method':<14} {'score':>7} {'spread':>7} {'seconds':>8}  features")
for row in result.ranking():
    print(
        f"{row.label:<14} {row.log_likelihood:7.3f} {row.spread:7.3f} {row.seconds:8.2f}  "
        f"{row.n_components}"
    )
plt.show()
