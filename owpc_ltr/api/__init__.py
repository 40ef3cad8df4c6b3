"""What a notebook, a service and the command line call: the public functions of `owpc_ltr`."""
