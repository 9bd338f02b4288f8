/* dn_v2.h - descriptors of oneDNN 2, for what reads them (dn_v2_winograd.c). */
#ifndef ONEDNN_DN_V2_H
#define ONEDNN_DN_V2_H
#include "library/dn.h"
#include <oneapi/dnnl/dnnl_types.h>

/* The library's description of a layout. */
void dn_v2_describe(const rg_md *md, dnnl_memory_desc_t *out);
/* What it is here; false: no memory. */
bool dn_v2_read(const dnnl_memory_desc_t *desc, rg_md *out);
#endif
