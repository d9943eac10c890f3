"""Build of the ament_python package; dependencies of ROS machines are in package.xml."""

from glob import glob
from os.path import isdir

from setuptools import find_packages, setup

NAME = 'stereo_bp_ros'

# Folders at the top that are installed inside the package, where ``resources.py`` finds them.
# colcon --symlink-install runs this beside a link to the package alone; it finds them behind it.
FOLDERS = {f'{NAME}.{inside}': folder
           for inside, folder in (('kernels', 'kernels'), ('presets', 'config')) if isdir(folder)}

BAGS = ['rosbags>=0.11', 'mcap>=1.2']
CPU = ['numba>=0.57', "tbb; platform_machine == 'x86_64'"]
EVALUATION = [*BAGS, 'matplotlib>=3.5', 'scipy>=1.9', 'jinja2>=3', 'argcomplete>=3']
VIEW = ["rerun-sdk>=0.41,<0.42; python_version >= '3.11'"]


def ros_wheels(distribution, rclpy, fastrtps, messages):
    """Wheels of ROS 2 for x86_64; with any other ROS, source its setup.bash instead."""
    return [*BAGS, f'ros-{distribution}-rclpy=={rclpy}',
            f'ros-{distribution}-rmw-fastrtps-cpp=={fastrtps}',
            *(f'ros-{distribution}-{name}=={messages}' for name in (
                'sensor-msgs', 'stereo-msgs', 'diagnostic-msgs', 'std-msgs'))]


WORKSPACE = ['colcon-common-extensions', 'colcon-ros', 'empy<4', 'catkin-pkg',
             'setuptools==79.0.1']
# CuPy brings the CUDA compiler's interface: kernels are compiled without a GPU or a driver.
TEST = ['pytest>=7', 'pytest-xdist>=3.2', 'coverage>=7.10', 'hypothesis', 'ruff', 'mypy',
        'types-PyYAML', "cupy-cuda13x>=13.6; platform_machine == 'x86_64'",
        "nvidia-cuda-nvrtc>=13,<14; platform_machine == 'x86_64'"]
DOCS = ['sphinx>=7', 'myst-parser>=3', 'furo']

setup(
    name=NAME,
    version='0.1.0',
    description='Stereo matching by belief propagation and block matching for ROS 2',
    # Whoever publishes the package fills in who maintains it, and where, here and in package.xml.
    author='The stereo_bp_ros developers',
    license='Apache-2.0',
    packages=[*find_packages(include=[NAME, f'{NAME}.*']), *FOLDERS],
    package_dir=FOLDERS,
    package_data={NAME: ['py.typed'], f'{NAME}.evaluation': ['report.html'],
                  f'{NAME}.kernels': ['*.md', '*.cu*', '*/*.cu*', '*/*/*.cu*'],
                  f'{NAME}.presets': ['*.*', 'cameras/*.yaml']},
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        (f'share/{NAME}/launch', glob('launch/*.launch.py')),
        (f'share/{NAME}/config', glob('config/*.*')),
        (f'share/{NAME}/config/cameras', glob('config/cameras/*')),
    ],
    python_requires='>=3.10',
    install_requires=['setuptools', 'numpy>=1.21', 'opencv-python-headless>=4.5', 'PyYAML>=5.4',
                      'rich>=10.6'],
    extras_require={
        'cpu': CPU,
        'cuda12': ['cupy-cuda12x>=13'],
        'cuda13': ['cupy-cuda13x>=13.6'],
        'evaluation': EVALUATION,
        'view': VIEW,
        'ros': ros_wheels('kilted', '9.1.2', '9.3.3', '5.5.1'),
        'ros-jazzy': ros_wheels('jazzy', '7.1.6', '8.4.3', '5.3.6'),
        'workspace': WORKSPACE,
        'test': TEST,
        'docs': DOCS,
    },
    entry_points={'console_scripts': [
        f'stereo_bp_node = {NAME}.node.main:main',
        f'stereo_bp = {NAME}.cli.main:main',
    ]},
    zip_safe=False,
)
