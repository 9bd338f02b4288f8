#include "base/device_link.h"
#include "base/provider_calls.h"
#include "inlay/check.h"
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { TRIAL_BYTES = 4096 };

/* Whether the importer accepted memory of the exporter. Entries are only added. */
struct verdict {
    const struct verdict *next;
    uint32_t exporter, importer; /* domains */
    bool accepted;
};
static const struct verdict *verdicts; /* atomic */

uint32_t link_default_domain(const struct inlay_provider *table, uint32_t first_domain)
{
    return table->default_domain == 0 ? (uint32_t)INLAY_DOMAIN_HOST : first_domain + table->default_domain - 1;
}

const char *link_name(uint32_t link)
{
    return link == LINK_IMPORT ? "import" : link == LINK_COPY ? "direct" : "host";
}

static uint32_t kinds_of(const link_end *end, bool imports)
{
    const inlay_domain_info *domain =
        INLAY_AT(inlay_domain_info, end->table->domains, end->table->domain_stride, end->domain - end->first_domain);

    INLAY_CHECK(end->domain - end->first_domain < end->table->domain_count);
    if (!INLAY_STRIDE_HAS(inlay_domain_info, end->table->domain_stride, imports))
        return 0;
    return imports ? domain->imports : domain->exports;
}

/* The best kind that `from` exports and `to` imports; INLAY_NONE: none. */
static uint32_t common_kind(const link_end *from, const link_end *to)
{
    static const uint32_t best_first[] = { INLAY_MEMORY_DMA_BUF, INLAY_MEMORY_SHARED_FD, INLAY_MEMORY_OPAQUE_FD };
    const uint32_t kinds = kinds_of(from, false) & kinds_of(to, true);

    for (size_t i = 0; i < sizeof best_first / sizeof best_first[0]; i++)
        if ((kinds & INLAY_MEMORY_BIT(best_first[i])) != 0)
            return best_first[i];
    return INLAY_NONE;
}

inlay_status link_import(const link_end *from, const inlay_buffer *buffer, const link_end *to, inlay_buffer *out,
                         inlay_diag *diag)
{
    const uint32_t kind = common_kind(from, to);
    const inlay_export_request request = { .struct_size = sizeof request, .buffer = buffer, .kind = kind };
    inlay_native_memory memory = { .struct_size = sizeof memory };
    inlay_status status;

    *out = (inlay_buffer){ 0 };
    if (kind == INLAY_NONE)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the two devices have no kind of shared memory in common");
    status = from->table->buffer_export(from->state, &request, &memory, diag);
    if (status != INLAY_OK)
        return status;
    status = memory.kind == kind && memory.bytes >= buffer->bytes
                 ? call_import(to->table, to->state, to->domain, &memory, INLAY_USE_INNER, out, diag)
                 : inlay_fail(diag, INLAY_UNSUPPORTED, "exported memory of kind %u and %llu bytes, not %u and %llu",
                              memory.kind, (unsigned long long)memory.bytes, kind, (unsigned long long)buffer->bytes);
    if (status != INLAY_OK && memory.ownership == INLAY_MEMORY_OWNED)
        (void)close((int)memory.handle);
    out->bytes = buffer->bytes;
    return status;
}

static inlay_status try_import(const link_end *from, const link_end *to)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_buffer page, imported;
    inlay_status status =
        call_alloc(from->table, from->state, from->first_domain, from->domain, TRIAL_BYTES,
                   (buffer_use){ .usage = INLAY_USE_SHARED, .lifetime = INLAY_LIFETIME_RUN }, &page, &diag);

    if (status != INLAY_OK)
        return status;
    status = link_import(from, &page, to, &imported, &diag);
    if (status == INLAY_OK)
        call_free(to->table, to->state, &imported);
    call_free(from->table, from->state, &page);
    return status;
}

static bool can_import(const link_end *from, const link_end *to)
{
    const struct verdict *known = __atomic_load_n(&verdicts, __ATOMIC_ACQUIRE);
    struct verdict *made;
    inlay_status status;

    if (common_kind(from, to) == INLAY_NONE)
        return false;
    for (const struct verdict *verdict = known; verdict != NULL; verdict = verdict->next)
        if (verdict->exporter == from->domain && verdict->importer == to->domain)
            return verdict->accepted;
    status = try_import(from, to);
    made = status == INLAY_OK || status == INLAY_UNSUPPORTED ? malloc(sizeof *made) : NULL;
    if (made == NULL)
        return status == INLAY_OK; /* a device that is full, for instance, is asked again */
    *made = (struct verdict){ known, from->domain, to->domain, status == INLAY_OK };
    while (!__atomic_compare_exchange_n(&verdicts, &made->next, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        continue;
    return status == INLAY_OK;
}

uint32_t link_between(const link_end *from, const link_end *to)
{
    if (from->state == to->state)
        return LINK_HOST;
    return can_import(from, to) ? LINK_IMPORT : can_import(to, from) ? LINK_COPY : LINK_HOST;
}
