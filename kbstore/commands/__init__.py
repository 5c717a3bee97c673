"""The commands of ``kbstore``, by what they are about."""
