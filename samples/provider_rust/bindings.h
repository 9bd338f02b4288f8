/* The headers whose declarations bindgen translates to Rust. */
#include "inlay/plugin.h"
