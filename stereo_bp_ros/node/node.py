"""The lifecycle node: transitions and callbacks, none of which computes anything itself."""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import SetParametersResult
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.lifecycle.node import LifecycleNodeMixin
from rclpy.node import Node
from rclpy.parameter import Parameter

from stereo_bp_ros.errors import described, reason_of
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.issues import IssueCode, IssueLevel
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher
from stereo_bp_ros.node import qos
from stereo_bp_ros.node.clocks import Clocks, Ticker
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.node.diagnostics.ledger import Ledger, PairDrop, take_snapshot
from stereo_bp_ros.node.diagnostics.monitors import LatencyWindow, OutputMonitor
from stereo_bp_ros.node.diagnostics.report import (
    Report,
    diagnostics_message,
    nothing_published,
    published_instead,
)
from stereo_bp_ros.node.diagnostics.rows import (
    OVER_TIME,
    camera_report,
    measure,
)
from stereo_bp_ros.node.frames import FrameProcessor
from stereo_bp_ros.node.matcher_host import MatcherFactory, MatcherHost
from stereo_bp_ros.node.pairing import Generation, Pairing, StereoPair
from stereo_bp_ros.node.parameters import BatchParameterService, Parameters
from stereo_bp_ros.node.publishing import OutputPublishers
from stereo_bp_ros.node.qos import QosWatch
from stereo_bp_ros.node.reconfiguration import Reconfiguration
from stereo_bp_ros.node.subscriptions import InputSubscriptions
from stereo_bp_ros.node.worker import Mailbox, Worker, WorkerStopped
from stereo_bp_ros.stream.observer import PairObserver
from stereo_bp_ros.system.transport import lock_memory

#: Seconds that a transition waits for the worker: compiling everything takes minutes at most.
CONFIGURE_LIMIT, DEACTIVATE_LIMIT, CLEANUP_LIMIT = 1200.0, 1.0, 30.0

#: Seconds that the end waits for its last report to reach listeners, and then to be read: what
#: they have not read goes with the process.
HEARD_LIMIT, READ = 1.0, 0.2

#: Seconds until a pair that was left is measured: rows that a bump moved are to be corrected
#: within two seconds.
MEASURING_TICK_S = 0.2

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class StereoBpNode(LifecycleNodeMixin, Node):
    """Stereo matching as a lifecycle node.

    :param matcher_factory: makes a matcher from a configuration; only called, like the matcher
        itself, in the worker's thread.
    :param on_fatal: is notified, in words, that the process should end with an error.
    :param on_configured: is called whenever everything is there that frames need.
    :param transport: what is wrong with how messages travel, for as long as the process lives.
    :param measures_inline: whether frames wait for what is measured, as in an evaluation.
    :raises ConfigError: the initial parameters are refused.
    """

    def __init__(self, *, matcher_factory: MatcherFactory | None = None,
                 on_fatal: Callable[[str], None] | None = None,
                 on_configured: Callable[[], None] | None = None, transport: str = '',
                 measures_inline: bool = False,
                 **node_arguments: Any) -> None:
        self._parameter_lock = threading.RLock()
        Node.__init__(self, 'stereo_bp', start_parameter_services=False, **node_arguments)
        LifecycleNodeMixin.__init__(self)

        self._on_fatal = on_fatal or (lambda text: None)
        self._on_configured = on_configured or (lambda: None)
        self._issues = IssueLog(self._log)
        self._issues.hold(IssueCode.TRANSPORT, *filter(None, [transport]))
        self._qos_watch = QosWatch(self, self._issues)
        self._clocks = Clocks(self, self._issues)
        self._ledger = Ledger()
        self._generation = Generation()
        self._latencies = LatencyWindow()
        self._observer = PairObserver()
        self._measures_inline = measures_inline
        self._mailbox = Mailbox(ledger=self._ledger)
        self._matcher_host = MatcherHost(matcher_factory or StereoMatcher,
                                       self.get_logger().info)
        self._worker = Worker(mailbox=self._mailbox, process=self._process,
                              on_error=self._on_worker_error)
        self._outputs: OutputPublishers | None = None
        self._processor: FrameProcessor | None = None
        self._inputs: InputSubscriptions | None = None
        self._busy_with = ''
        self._stopping = False
        # Held through a transition: autostart's thread, the executor's with its service, and the
        # main thread at the end.
        self._transitions = threading.RLock()
        self._reconfiguration = Reconfiguration(
            matcher_host=self._matcher_host, worker=self._worker, mailbox=self._mailbox,
            issues=self._issues, log=self.get_logger().info)
        self._configuration = Parameters(self, check=self._reconfiguration.check,
                                         on_change=self._on_parameters)
        self._parameter_services = BatchParameterService(self)
        self._pairing = Pairing(ledger=self._ledger, generation=self._generation,
                                settings=self._configuration.node,
                                on_clock_jump=self._on_clock_jump,
                                on_reject=self._issues.add)
        self._clocks.on_going_back(self._pairing.clock_went_back)
        self._reported = self._ledger.counts()
        self._output_monitor = OutputMonitor()
        self._diagnostics_publisher = self.create_publisher(
            DiagnosticArray, '/diagnostics', qos.publisher(),
            qos_overriding_options=qos.overriding_options())
        # Not a timer of the executor, which a transition may keep waiting for the compiler; and
        # real time, because a paused simulation is no reason for silence.
        self._ticker = Ticker(1.0, self._publish_diagnostics)
        self._ticker.start()
        # Apart from the diagnostics, which a long measurement must not delay.
        self._measuring = Ticker(MEASURING_TICK_S, self._measure)
        self._measuring.start()
        self._worker.start()

    def set_parameters_atomically(self, parameter_list: list[Parameter]) -> SetParametersResult:
        """As rclpy's, for any thread: the worker sets parameters back that it could not apply."""
        with self._parameter_lock:
            return Node.set_parameters_atomically(self, parameter_list)

    # Transitions

    def autostart(self) -> None:
        """Configure and activate in a thread of its own, if the parameter asks for it."""
        if self._configuration.node.autostart:
            threading.Thread(target=self._autostart, name='stereo_bp_autostart',
                             daemon=True).start()

    def _autostart(self) -> None:
        try:
            # Whoever has asked for another transition since then wins.
            if (self.trigger_configure() == SUCCESS and not self._stopping
                    and self._state_machine.current_state[1] == 'inactive'):
                self.trigger_activate()
        except Exception as error:
            # Whatever an end in the middle of the start leads to is no news.
            if not self._stopping:
                self._issues.hold(IssueCode.DEVICE,
                                  f'the start failed: {described(error)}')

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Build the engine: compile, allocate and warm up."""
        return self._transition('configuring', self._configure, state, undo=self._cleanup)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Subscribe."""
        return self._transition('activating', self._activate, state, undo=self._deactivate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Unsubscribe; nothing is published any more when this returns."""
        return self._transition('deactivating', self._deactivate, state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Give back everything that configure took."""
        return self._transition('cleaning up', self._cleanup, state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """As deactivate and cleanup, from any state."""
        return self._transition('shutting down', self._shut_down, state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Back to unconfigured, with nothing left behind."""
        return self._transition('recovering', self._shut_down, state)

    def _transition(self, name: str, work: Callable[[LifecycleState], None],
                    state: LifecycleState, *, undo: Callable[[LifecycleState], None] | None = None
                    ) -> TransitionCallbackReturn:
        with self._transitions:
            if self._stopping:
                return FAILURE
            self._busy_with = name
            try:
                work(state)
                return SUCCESS
            except WorkerStopped:
                pass
            except Exception as error:
                # rclpy would swallow what leaves a transition.
                if not self._stopping:
                    if undo is not None:
                        with contextlib.suppress(Exception):
                            undo(state)
                    self._issues.hold(IssueCode.DEVICE,
                                      f'{name} failed: {reason_of(error)}')
            finally:
                self._busy_with = ''
            return FAILURE

    def _configure(self, state: LifecycleState) -> None:
        self._issues.clear(IssueCode.DEVICE)
        settings = self._configuration.node
        self.get_logger().info('configuring: building the engine; the first time, compiling '
                               'takes a while')
        seconds = self._worker.call(
            lambda: self._reconfiguration.build(self._configuration), limit=CONFIGURE_LIMIT,
            progress=lambda waited: self.get_logger().info(
                f'configuring: still compiling after {waited:.0f} s'))
        if self._matcher_host.lost:
            self._issues.hold(IssueCode.DEVICE, self._matcher_host.lost)
        self._outputs = OutputPublishers(self, group=self.default_callback_group,
                                         qos_watch=self._qos_watch, settings=settings,
                                         on_buffer=self._matcher_host.pin)
        self._processor = FrameProcessor(
            matcher_host=self._matcher_host, outputs=self._outputs, ledger=self._ledger,
            generation=self._generation, latencies=self._latencies,
            issues=self._issues, observer=self._observer,
            measures_inline=self._measures_inline, settings=settings,
            now_ns=self._clocks.now_ns, on_device_loss=self._on_fatal,
            choose=lambda *size: self._reconfiguration.choose(self._configuration, *size))
        self._issues.hold(IssueCode.MEMORY, *filter(None, [
            lock_memory() if settings.lock_memory else '']))
        # Parameters may have changed while the engine was built.
        self._on_parameters()
        matcher = self._matcher_host.matcher
        self.get_logger().info(f'configured in {seconds:.1f} s' + (
            ': the preset is chosen for the first image' if matcher is None else
            f', {matcher.compile_time:.1f} s of it compiling: {matcher.config.stereo_algorithm} '
            f'on {matcher.backend} ({matcher.backend_reason})'))
        self._on_configured()

    def _activate(self, state: LifecycleState) -> None:
        LifecycleNodeMixin.on_activate(self, state)
        self._latencies.clear()
        self._forget_images()
        self._pairing.open()
        self._inputs = InputSubscriptions(
            self, rectify=self._configuration.matcher.rectify,
            group=self.default_callback_group, settings=self._configuration.node,
            pairing=self._pairing, issues=self._issues, qos_watch=self._qos_watch,
            deliver=self._worker.deliver, on_camera_info=self._on_camera_info,
            now=self._clocks.seconds)
        self.get_logger().info('active: waiting for ' + ', '.join(
            monitor.topic for monitor in self._inputs.images.values()))

    def _deactivate(self, state: LifecycleState | None = None) -> None:
        # From here on nothing passes the gate; what is being published has been.
        self._generation.advance(PairDrop.DEACTIVATED)
        inputs, self._inputs = self._inputs, None
        if inputs is not None:
            inputs.destroy()
        self._pairing.close()
        self._mailbox.clear(PairDrop.DEACTIVATED)
        if state is not None:
            LifecycleNodeMixin.on_deactivate(self, state)
            # So that the counters add up; a frame that takes longer is discarded later.
            with contextlib.suppress(TimeoutError):
                self._worker.call(lambda: None, limit=DEACTIVATE_LIMIT)

    def _cleanup(self, state: LifecycleState | None = None) -> None:
        self._worker.call(self._matcher_host.release, limit=CLEANUP_LIMIT)
        self._configuration.forget_preset()
        self._processor = None
        self._forget_images()
        self._reconfiguration.forget_size()
        outputs, self._outputs = self._outputs, None
        if outputs is not None:
            outputs.destroy()
        self._issues.clear(IssueCode.DEVICE)

    def _forget_images(self) -> None:
        """And what they have shown."""
        self._observer.clear()
        for code in OVER_TIME:
            self._issues.clear(code)

    def _shut_down(self, state: LifecycleState) -> None:
        self._deactivate()
        self._cleanup()

    def stop(self, limit: float) -> bool:
        """End for good, from any state: nothing is published any more, all memory is given back.

        Returns whether all threads ended; the worker's does not while it compiles. That, and a
        transition of another thread, is waited for at most ``limit`` seconds.
        """
        self._stopping = True
        self._ticker.stop()
        self._measuring.stop()
        deadline = time.monotonic() + limit
        with contextlib.ExitStack() as stack:
            if self._transitions.acquire(timeout=limit):
                stack.callback(self._transitions.release)
            self._deactivate()
            self._release(deadline - time.monotonic())
        # The last word, for whoever looks at /diagnostics to learn why the node has gone.
        self._publish_diagnostics()
        self._wait_for_listeners()
        return self._worker.stop(limit=0.1)

    def _release(self, limit: float) -> None:
        try:
            self._worker.call(self._matcher_host.release, limit=limit)
        except (TimeoutError, WorkerStopped):
            pass
        except Exception as error:
            self.get_logger().error(f'memory could not be given back: {error!r}')

    def _wait_for_listeners(self) -> None:
        publisher = self._diagnostics_publisher
        with contextlib.suppress(RuntimeError):         # the context has gone already
            if publisher.get_subscription_count():
                publisher.wait_for_all_acked(Duration(seconds=HEARD_LIMIT))
                time.sleep(READ)

    def report_error(self, error: BaseException) -> None:
        """Report an exception that has left a callback, for any thread."""
        if not self._stopping:
            self._issues.add(IssueCode.EXECUTOR, f'a callback failed: {described(error)}',
                             detail=''.join(traceback.format_exception(error)))

    # The worker's thread

    def _process(self, pair: StereoPair) -> None:
        processor = self._processor
        if processor is None:
            self._ledger.drop_pair(PairDrop.DEACTIVATED)
        else:
            processor.process(pair)

    def _on_worker_error(self, error: BaseException) -> None:
        self._ledger.drop_pair(PairDrop.ENGINE_ERROR)
        self._issues.add(IssueCode.ENGINE, f'matching failed: {described(error)}')

    # Callbacks

    def _on_camera_info(self) -> None:
        left, right = (self._pairing.latest_camera_info(side) for side in SIDES)
        self._reconfiguration.expect(left, right, self._configuration)

    def _on_clock_jump(self) -> None:
        self._generation.advance(PairDrop.CLOCK_JUMP)
        self._mailbox.clear(PairDrop.CLOCK_JUMP)
        self._forget_images()
        self._issues.add(IssueCode.CLOCK_JUMP, 'stamps went back: starting over')

    def _on_parameters(self) -> None:
        settings = self._configuration.node
        self._pairing.settings = settings
        processor = self._processor
        if processor is not None:
            processor.settings = settings
        self._reconfiguration.reconcile(self._configuration)

    def _measure(self) -> None:
        self._observer.max_vertical_offset = self._configuration.node.max_vertical_offset
        try:
            measure(self._observer, self._issues)
        except Exception as error:
            self._issues.add(IssueCode.DIAGNOSTICS, f'measuring failed: {described(error)}')

    def _publish_diagnostics(self) -> None:
        try:
            self._check_graph_and_clock()
            report = self._report()
            # Logged once: the status repeats it.
            self._issues.hold(IssueCode.PUBLISHED_INSTEAD, *published_instead(report))
            stall, active = nothing_published(report), self._issues.active(IssueCode.OUTPUT)
            if stall is None:
                self._issues.clear(IssueCode.OUTPUT)
            elif not active or active[0].level != stall.level:      # logged when it begins
                self._issues.hold(IssueCode.OUTPUT, stall.text, level=stall.level)
            self._diagnostics_publisher.publish(diagnostics_message(
                self.get_fully_qualified_name(), self._clocks.stamp(), report))
        except Exception as error:
            self._issues.add(IssueCode.DIAGNOSTICS, f'diagnostics failed: {described(error)}')

    def _check_graph_and_clock(self) -> None:
        """Hold what is true of the graph and the clock at this moment."""
        self._qos_watch.refresh()
        self._issues.hold(IssueCode.CLOCK, *(
            ['use_sim_time is set, but nothing comes on /clock: the age of images is not checked']
            if self._clocks.missing() else []))
        name = self.get_name(), self.get_namespace()
        namesakes = self.get_node_names_and_namespaces().count(name)
        self._issues.hold(IssueCode.NAME, *(
            [f'{namesakes} nodes are named {self.get_fully_qualified_name()}: their topics, '
             'parameters and services get mixed up; end one, or give it another name '
             '(--ros-args -r __node:=NAME)'] if namesakes > 1 else []))

    def _report(self) -> Report:
        inputs, outputs, now = self._inputs, self._outputs, self._clocks.seconds()
        settings = self._configuration.node
        distribution, recent = self._latencies.report()
        # Before the counters, which are ahead of the words: no report has these alone.
        issues = self._issues.report()
        snapshot = take_snapshot(
            self._ledger, self._pairing.waiting, lambda: self._pairing.awaiting_camera_info
            + self._mailbox.occupied + self._worker.busy)
        counts, before = snapshot.counts, self._reported
        self._reported = counts
        state = self._busy_with or self._state_machine.current_state[1]
        idle = state == 'active' and outputs is not None and not outputs.wanted()
        infos = inputs.info_reports(now) if inputs else {}
        return Report(
            state=state, idle=idle,
            images=inputs.image_reports(now) if inputs else [], infos=list(infos.values()),
            missing=[infos[side].topic for side in self._pairing.missing_camera_infos()
                     if side in infos],
            issues=issues, counts=counts, before=before,
            stall=self._output_monitor.report(
                time.monotonic(), counts, wanted=state == 'active' and not idle,
                timeout=settings.input_timeout, building=self._matcher_host.building_since,
                built=self._matcher_host.built_at),
            waiting=snapshot.waiting, held=snapshot.held,
            closest_miss=self._pairing.take_closest_miss(),
            quality=self._observer.quality,
            vertical=camera_report(self._observer, self._configuration.matcher.row_correction),
            distribution=distribution, recent=recent, matcher=self._matcher_host.matcher,
            device=dict(self._matcher_host.device),
            config=self._configuration.matcher, settings=settings,
            preset=self._configuration.preset)

    def _log(self, level: IssueLevel, text: str) -> None:
        logger = self.get_logger()
        # Two calls: rclpy refuses a call site whose severity changes.
        if level is IssueLevel.ERROR:
            logger.error(text)
        else:
            logger.warning(text)
