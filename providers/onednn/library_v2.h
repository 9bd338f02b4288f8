/* library_v2.h - conversion of layouts to and from descriptors of oneDNN 2. */
#ifndef ONEDNN_LIBRARY_V2_H
#define ONEDNN_LIBRARY_V2_H
#include "cpu/library/library.h"
#include <oneapi/dnnl/dnnl_types.h>

/* Converts a layout to the library's descriptor. */
void library_v2_describe(const memory_desc *md, dnnl_memory_desc_t *out);
/* Converts the library's descriptor to a layout; false: out of memory. */
bool library_v2_read(const dnnl_memory_desc_t *desc, memory_desc *out);
#endif
