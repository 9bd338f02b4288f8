/* library_v2.h - descriptors of oneDNN 2, for what reads them (library_v2_winograd.c). */
#ifndef ONEDNN_DN_V2_H
#define ONEDNN_DN_V2_H
#include "library/library.h"
#include <oneapi/dnnl/dnnl_types.h>

/* The library's description of a layout. */
void library_v2_describe(const memory_desc *md, dnnl_memory_desc_t *out);
/* What it is here; false: no memory. */
bool library_v2_read(const dnnl_memory_desc_t *desc, memory_desc *out);
#endif
