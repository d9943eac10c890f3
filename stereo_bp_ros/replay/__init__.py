"""Replay over ROS: plays bags and image folders to the node and records what it answers."""
