# make demo   renders a road sequence, replays it through the node over DDS, writes build/demo
# make test   ruff, mypy and pytest with coverage
# make clean  removes everything that the two made
#
# Both install what they need into .venv, on a fresh machine with Python 3.10 or later and
# nothing else. PYTHON names the interpreter, STEREO_BP_DATA the folder of real stereo data.

PYTHON ?= python3
STEREO_BP_DATA ?= ../shared/data
export STEREO_BP_DATA

VENV := .venv
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
WORKSPACE := build/workspace
SOURCES := $(shell find stereo_bp_ros config kernels launch -type f -not -name '*.pyc') package.xml setup.py setup.cfg

# What the demo matches: a rendered sequence, or BAG=<rosbag2> or IMAGES=<folder of pairs>.
DEMO := $(if $(BAG),--bag $(BAG)) $(if $(IMAGES),--images $(IMAGES)) $(DEMO_OPTIONS)

.PHONY: demo test clean

demo: $(WORKSPACE)/.built
	. $(VENV)/bin/activate && . $(WORKSPACE)/install/local_setup.sh \
	&& stereo_bp demo --output build/demo $(DEMO)

test: $(VENV)/.test
	. $(VENV)/bin/activate && ruff check . && mypy && coverage erase \
	&& coverage run -m pytest $(PYTEST_OPTIONS) \
	&& coverage combine --quiet && coverage report --sort=cover

clean:
	rm -rf $(VENV) build install log dist *.egg-info .coverage* .pytest_cache .mypy_cache \
		.ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	touch $(VENV)/COLCON_IGNORE

# The package itself is installed editable, so that tests run on the sources.
$(VENV)/.demo: $(VENV)/bin/python setup.py constraints.txt
	@echo 'Installing ROS 2, Numba, OpenCV and colcon into $(VENV) ...'
	$(PIP) 'setuptools==79.0.1' wheel
	$(PIP) --no-build-isolation -e '.[cpu,ros,evaluation,workspace]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(PIP) --no-build-isolation -e '.[cpu,ros,evaluation,workspace,test]'
	touch $@

$(WORKSPACE)/.built: $(VENV)/.demo $(SOURCES)
	@mkdir -p $(WORKSPACE)
	. $(VENV)/bin/activate && colcon --log-base $(WORKSPACE)/log build --paths . \
		--build-base $(WORKSPACE)/build --install-base $(WORKSPACE)/install
	touch $@
