# make demo      renders a road sequence, replays it through the node over DDS, writes build/demo
# make test      ruff, mypy and the quick tests, side by side on all cores
# make test-all  every test, the coverage of those without the mark slow, as on other machines,
#                and the pages
# make test-portable  the quick tests as on other machines: one core, another user, processor, time
#                zone and order (TEST_ORDER_SEED repeats one), each as far as this machine can
# make test-jazzy  the quick tests of what speaks ROS, with the wheels of ROS 2 Jazzy
# make test-gpu  the tests that need an NVIDIA GPU, with the Python at hand: installs nothing
# make soak      faults at random for SOAK_MINUTES (60) against a real node: build/soak/soak.html
# make fuzz      a million damaged inputs (FUZZ_CASES, FUZZ_SEED): build/fuzz/report.json
# make sanitize  the kernels' host tests under AddressSanitizer and UndefinedBehaviorSanitizer, or
#                with SANITIZE=thread under ThreadSanitizer
# make docs      builds the pages of docs/ with their links checked: build/docs/index.html
# make clean     removes everything that these made
#
# All but test-gpu install what they need into .venv, on a fresh machine with Python 3.10 or
# later and nothing else. PYTHON names the interpreter, STEREO_BP_DATA the folder of real stereo
# data, PYTEST_OPTIONS a part of the tests.

PYTHON ?= python3
STEREO_BP_DATA ?= ../shared/data
# Commands also run in other folders than this one.
export override STEREO_BP_DATA := $(abspath $(STEREO_BP_DATA))

VENV := .venv
ROS := ros
CONSTRAINTS := constraints.txt
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)
WORKSPACE := build/workspace
SOURCES := package.xml setup.py setup.cfg \
	$(shell find stereo_bp_ros config kernels launch -type f -not -name '*.pyc')

# Tests of a module that share a node stay together until a core has nothing left to do.
SIDE_BY_SIDE := -n auto --dist worksteal

QUICK := -m 'not slow and not gpu' --hypothesis-profile=quick

# Per cent of the lines and branches that the tests without the mark slow run at least, without a
# GPU. Slow ones repeat what these hold, and would take twice as long while they are measured.
COVERAGE := 93

SOAK_MINUTES ?= 60
SOAK_SEED ?= 1

# What the demo matches: a rendered sequence, or BAG=<rosbag2> or IMAGES=<folder of pairs>.
DEMO := $(if $(BAG),--bag $(BAG)) $(if $(IMAGES),--images $(IMAGES)) $(DEMO_OPTIONS)

FUZZ_CASES ?= 1000000
FUZZ_SEED ?= 0

SANITIZE ?= address,undefined

.PHONY: demo test test-all test-portable test-jazzy test-gpu soak fuzz sanitize docs clean

demo: $(WORKSPACE)/.built
	. $(VENV)/bin/activate && . $(WORKSPACE)/install/local_setup.sh \
	&& stereo_bp demo --output build/demo $(DEMO)

test: $(VENV)/.test
	. $(VENV)/bin/activate && ruff check . && mypy && python -m test.warming \
	&& python -m pytest $(SIDE_BY_SIDE) $(QUICK) $(PYTEST_OPTIONS)

test-all: $(VENV)/.test
	. $(VENV)/bin/activate && ruff check . && mypy && python -m test.warming && coverage erase \
	&& coverage run -m pytest $(SIDE_BY_SIDE) -m 'not slow' $(PYTEST_OPTIONS) \
	&& coverage combine --quiet \
	&& coverage report --sort=cover $(if $(PYTEST_OPTIONS),,--fail-under=$(COVERAGE)) \
	&& { python -m pytest $(SIDE_BY_SIDE) -m slow $(PYTEST_OPTIONS) || test $$? = 5; }
	$(if $(PYTEST_OPTIONS),,$(MAKE) test-portable docs)

test-portable: $(VENV)/.test
	. $(VENV)/bin/activate && python -m test.portable $(QUICK) $(PYTEST_OPTIONS)

test-jazzy:
	$(MAKE) .venv-jazzy/.test VENV=.venv-jazzy ROS=ros-jazzy CONSTRAINTS=.venv-jazzy/constraints.txt
	. .venv-jazzy/bin/activate && python -m pytest $(SIDE_BY_SIDE) $(QUICK) \
		$(or $(PYTEST_OPTIONS),test/node test/replay)

soak: $(VENV)/.test
	. $(VENV)/bin/activate && python -m test.soak --minutes $(SOAK_MINUTES) \
		--seed $(SOAK_SEED) --output build/soak $(SOAK_OPTIONS)

fuzz: $(VENV)/.test
	$(VENV)/bin/python -m test.fuzz --cases $(FUZZ_CASES) --seed $(FUZZ_SEED) \
		--output build/fuzz/report.json

sanitize: $(VENV)/.test
	$(VENV)/bin/python -m test.engines.support.host_cuda $(SANITIZE) $(SIDE_BY_SIDE) \
		test/engines/host $(PYTEST_OPTIONS)

docs: $(VENV)/.docs
	$(VENV)/bin/python -m sphinx -W --keep-going -n -q -b html -d build/doctrees docs build/docs
	@echo 'build/docs/index.html'

# One after another: some measure what is free of the device's memory.
test-gpu:
	$(PYTHON) -m pytest -m gpu $(PYTEST_OPTIONS)

clean:
	rm -rf $(VENV) .venv-jazzy build install log dist *.egg-info .coverage* .pytest_cache \
		.mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	touch $(VENV)/COLCON_IGNORE

# Everything but ROS is as for Kilted.
.venv-jazzy/constraints.txt: .venv-jazzy/bin/python constraints.txt constraints-jazzy.txt
	grep -Ev '^(ros-|rclpy=|rcutils=)' constraints.txt | cat - constraints-jazzy.txt > $@

# Linked to no other target: the pages need neither ROS nor a compiler.
$(VENV)/.docs: $(VENV)/bin/python setup.py $(CONSTRAINTS)
	$(PIP) 'setuptools==79.0.1' wheel
	$(PIP) --no-build-isolation -e '.[docs]'
	touch $@

# The package itself is installed editable, so that tests run on the sources.
$(VENV)/.demo: $(VENV)/bin/python setup.py $(CONSTRAINTS)
	@echo 'Installing ROS 2, Numba, OpenCV, Rerun and colcon into $(VENV) ...'
	$(PIP) 'setuptools==79.0.1' wheel
	$(PIP) --no-build-isolation -e '.[cpu,$(ROS),evaluation,view,workspace]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(PIP) --no-build-isolation -e '.[cpu,$(ROS),evaluation,view,workspace,test]'
	touch $@

$(WORKSPACE)/.built: $(VENV)/.demo $(SOURCES)
	@mkdir -p $(WORKSPACE)
	. $(VENV)/bin/activate && colcon --log-base $(WORKSPACE)/log build --paths . \
		--build-base $(WORKSPACE)/build --install-base $(WORKSPACE)/install
	touch $@
