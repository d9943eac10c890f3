"""A frame in flight."""

from __future__ import annotations

import concurrent.futures

from stereo_bp_ros.config.arguments import seconds_of
from stereo_bp_ros.frame.disparity_frame import DisparityFrame


class Pending:
    """A frame in flight: a result that is or will be there.

    Whoever stops waiting, by ``timeout``, leaves the frame in flight.
    """

    def __init__(self, future: concurrent.futures.Future[DisparityFrame]) -> None:
        self._future = future

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> DisparityFrame:
        """Wait for the frame, at most ``timeout`` seconds.

        :raises TimeoutError: the frame is not there yet.
        :raises StereoError: what computing it raised, or ``timeout`` is no number.
        """
        if timeout is not None:
            timeout = seconds_of('timeout', timeout)
        try:
            return self._future.result(timeout)
        except concurrent.futures.TimeoutError as error:
            if self._future.done():     # just now, or by a TimeoutError of its own
                return self._future.result()
            raise TimeoutError(f'no result within {timeout} s') from error
