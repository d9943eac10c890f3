"""Arrays for an engine to fill."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stereo_bp_ros.frame.disparity_frame import OUTPUTS


def rubbish(names: Iterable[str], image: tuple[int, ...], decimation: int = 1
            ) -> dict[str, np.ndarray]:
    """An array for each output, of which no byte may be left as it is.

    :param image: height and width; what follows does not matter.
    :param decimation: the setting ``points_decimation``.
    """
    arrays = {name: OUTPUTS[name].empty((image[0], image[1]), decimation) for name in names}
    for array in arrays.values():
        array.view(np.uint8).fill(0x5b)
    return arrays


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
