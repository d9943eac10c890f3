"""What speaks ROS: the lifecycle node and its parts."""
