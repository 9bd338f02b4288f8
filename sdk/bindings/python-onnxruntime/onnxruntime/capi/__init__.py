"""The lower level of the interface: bindings of the table OrtApi, and the classes on top of them."""
