/* base/device_link.h - how a value gets from the memory of one provider into that of another: see "Devices that meet"
 * in inlay/plugin.h. Any thread. */
#ifndef BASE_DEVICE_LINK_H
#define BASE_DEVICE_LINK_H
#include "inlay/status.h"
#include "inlay/types.h"

/* A memory domain, and the provider that owns it. table and state are those of provider_calls.h. */
typedef struct link_end {
    const struct inlay_provider *table;
    void *state;
    uint32_t first_domain; /* id of table->domains[0] */
    uint32_t domain;
} link_end;

enum {
    LINK_HOST,  /* two copies, through host memory */
    LINK_COPY,  /* `from` imports memory of `to` and copies into it */
    LINK_IMPORT /* `to` imports the memory of `from`: no copy */
};

/* The domain of a provider's values unless a placement names another one. */
uint32_t link_default_domain(const struct inlay_provider *table, uint32_t first_domain);

/* The name of a link in reports: "host", "direct", "import". */
const char *link_name(uint32_t link);

/* The link between domains of two providers. Tests it with a page of memory at the first request; a
 * refusal is remembered as long as the process runs, because ids of domains are never used again. */
uint32_t link_between(const link_end *from, const link_end *to);

/* Makes a buffer of `from` (at offset 0, as buffer_alloc returned it with INLAY_USE_SHARED) a buffer of `to`, to be
 * released with buffer_free of `to` before the memory itself. INLAY_UNSUPPORTED: the domains have no kind of memory in
 * common, or one of the providers refuses. */
INLAY_NODISCARD inlay_status link_import(const link_end *from, const inlay_buffer *buffer, const link_end *to,
                                         inlay_buffer *out, inlay_diag *diag);
#endif
