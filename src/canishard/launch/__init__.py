"""Run a function on several ranks with a watchdog, stacks and clean-up. The parent never imports torch."""

from canishard.launch.client import ServerLost, recorded_environment
from canishard.launch.judge import Rules
from canishard.launch.launcher import START_METHODS, Launcher
from canishard.launch.watch import Where

__all__ = ["START_METHODS", "Launcher", "Rules", "ServerLost", "Where", "recorded_environment"]
