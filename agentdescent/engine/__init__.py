"""The core: one loop, two schedules. It knows plug-ins by Protocol only."""
