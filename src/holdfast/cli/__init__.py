"""The command line: ``holdfast``. One file a command group; ``main`` joins them."""
