"""The checks of `finclaw doctor`: each looks at one part of an installation and gives findings."""
