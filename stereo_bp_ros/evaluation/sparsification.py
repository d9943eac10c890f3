"""How well a confidence sorts errors: sparsification curves and the area under them.

The most trusted pixels of a map should have the smallest error. A sparsification curve is the
error of the k most trusted pixels over k; the oracle's curve is that of the k pixels with the
smallest error, which no confidence can beat. The area under a curve is its mean over k = 1 .. n,
and AUSE is the area between both, as in Ilg et al., ECCV 2018 (section 4.2), in the unit of the
error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Shares of pixels kept, the most trusted ones, at which curves are reported.
SHARES = tuple(step / 20 for step in range(1, 21))


@dataclass(frozen=True)
class Sparsification:
    """Both curves of one map, in the unit of the error.

    curve, oracle:     mean error of the most trusted, or of the best, ``SHARES`` of the pixels.
    area, oracle_area: mean of each curve over every number of kept pixels.
    """

    curve: tuple[float, ...]
    oracle: tuple[float, ...]
    area: float
    oracle_area: float

    @property
    def ause(self) -> float:
        """Area between both curves; 0 where the confidence sorts the errors perfectly."""
        return self.area - self.oracle_area

    def as_dict(self) -> dict[str, float | list[float]]:
        """For JSON."""
        return {'area': self.area, 'oracle_area': self.oracle_area, 'ause': self.ause,
                'curve': list(self.curve), 'oracle': list(self.oracle)}


def sparsify(error: np.ndarray, confidence: np.ndarray) -> Sparsification | None:
    """Sort errors by the confidence in their pixels; None without any pixel.

    Pixels of equal confidence have no order: each stands for their mean error.

    error:      n values, finite; of a share 100 where a pixel is wrong and 0 elsewhere.
    confidence: n values, finite; larger = trusted more.

    :raises ValueError: the arrays are not one-dimensional or not of the same length.
    """
    if error.ndim != 1 or error.shape != confidence.shape:
        raise ValueError(f'errors of {error.shape} cannot be sorted by a confidence of '
                         f'{confidence.shape}')
    if not error.size:
        return None
    curve, area = _curve(error, confidence)
    oracle, oracle_area = _curve(error, -error)
    return Sparsification(curve, oracle, area, oracle_area)


def _curve(error: np.ndarray, trust: np.ndarray) -> tuple[tuple[float, ...], float]:
    """Mean error of the most trusted pixels at ``SHARES``, and its mean over all counts."""
    _, place, sizes = np.unique(-trust, return_inverse=True, return_counts=True)
    sums = np.bincount(place.ravel(), error.astype(np.float64))
    # Linear inside a group of equal trust, whose pixels have no order.
    ends = np.concatenate([[0], np.cumsum(sizes)])
    total = np.concatenate([[0.0], np.cumsum(sums)])
    kept = np.array(SHARES) * error.size
    counts = np.arange(1, error.size + 1)
    return (tuple((np.interp(kept, ends, total) / kept).tolist()),
            float(np.mean(np.interp(counts, ends, total) / counts)))
