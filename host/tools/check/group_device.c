/* Devices: lists of them, memory that is copied, mapped and shared, and fences of others. */
#include "check/bench.h"
#include "threads/fence.h"
#include "plugin/plugin.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 4096 + 64, BUFFERS = 3, GATE_MS = 20, PATIENCE_MS = 10000 };

/* ------------------------------------------------------------------ what there is */

typedef struct device_count {
    struct check *c;
    const inlay_provider *p;
    uint32_t count, usable;
    bool faulty;
} device_count;

static bool is_text(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static bool has_option(const inlay_provider *p, const char *name)
{
    for (uint32_t i = 0; i < p->option_count; i++)
        if (strcmp(INLAY_AT(inlay_option, p->options, p->option_stride, i)->name, name) == 0)
            return true;
    return false;
}

static inlay_status look_at_one(void *user, const inlay_device_info *d)
{
    device_count *n = user;

    if (!INLAY_HAS(d, flags) || !is_text(d->name) || is_text(d->option) != is_text(d->value) ||
        (is_text(d->option) && !has_option(n->p, d->option)) || d->kind < INLAY_DEVICE_CPU ||
        d->kind > INLAY_DEVICE_OTHER) {
        check_fail(n->c, "device.list", n->p->name,
                   "a name, a kind, and an option of the provider with its value, or none", "fill in inlay_device_info",
                   "device %u '%s', option '%s', kind %u", n->count, is_text(d->name) ? d->name : "",
                   is_text(d->option) ? d->option : "", d->kind);
        n->faulty = true;
    }
    n->count++;
    n->usable += d->unusable == NULL;
    return INLAY_OK;
}

static inlay_status stop_at_first(void *user, const inlay_device_info *d)
{
    (void)d;
    ++*(uint32_t *)user;
    return INLAY_CANCELLED;
}

static void check_list(struct check *c, const inlay_provider *p)
{
    device_count n = { .c = c, .p = p };
    inlay_diag diag = INLAY_DIAG_INIT, ignored = INLAY_DIAG_INIT;
    inlay_status status;
    uint32_t calls = 0;

    if (p->enumerate == NULL)
        return;
    check_phase(c, "enumerate");
    status = p->enumerate(p->ctx, host_table(), look_at_one, &n, &diag);
    check_phase(c, "the checker");
    if (status == INLAY_UNSUPPORTED && n.count == 0 && is_text(diag.text)) {
        check_pass(c, "device.list", p->name, "there is none: %.200s", diag.text);
        return;
    }
    if (status != INLAY_OK) {
        check_fail(c, "device.list", p->name, "INLAY_OK, or INLAY_UNSUPPORTED with a sentence where there is none",
                   "say why in diag", "%s after %u devices: %.200s", inlay_status_text(status), n.count, diag.text);
        return;
    }
    if (n.count > 0 &&
        (p->enumerate(p->ctx, host_table(), stop_at_first, &calls, &ignored) != INLAY_CANCELLED || calls != 1)) {
        check_fail(c, "device.list", p->name, "an end of the list where the callback says so",
                   "return what the callback returned", "%u more calls", calls - 1);
        return;
    }
    if (!n.faulty)
        check_pass(c, "device.list", p->name, "%u devices, %u of them usable", n.count, n.usable);
}

/* The flags of the first domain, as they are now that the device is open. */
static uint32_t check_description(struct check *c, const loaded_provider *p)
{
    const inlay_provider *t = p->table;
    inlay_device_info info = { .struct_size = sizeof info };
    inlay_domain_info domains[8];
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    if (t->domain_count > 8)
        return 0;
    for (uint32_t i = 0; i < t->domain_count; i++)
        domains[i] = *INLAY_AT(inlay_domain_info, t->domains, t->domain_stride, i);
    if (t->describe == NULL)
        return t->domain_count > 0 ? domains[0].flags : 0;
    check_phase(c, "describe");
    status = t->describe(p->state, &info, domains, &diag);
    check_phase(c, "the checker");
    for (uint32_t i = 0; i < t->domain_count && status == INLAY_OK; i++) {
        const uint64_t a = domains[i].alignment;

        if (is_text(domains[i].name) && a != 0 && (a & (a - 1)) == 0 &&
            a >= INLAY_AT(inlay_domain_info, t->domains, t->domain_stride, i)->alignment &&
            ((domains[i].flags & INLAY_DOMAIN_HOST_VISIBLE) == 0 || t->buffer_map != NULL))
            continue;
        check_fail(c, "device.description", p->name,
                   "domains with a name, an alignment that is no smaller than before, "
                   "and functions for what their flags promise",
                   "leave what is not known as it was", "domain %u is aligned to %llu, flags 0x%x", i,
                   (unsigned long long)a, domains[i].flags);
        return 0;
    }
    if (status != INLAY_OK)
        check_fail(c, "device.description", p->name, "INLAY_OK", "leave what is not known as it was", "%s: %.200s",
                   inlay_status_text(status), diag.text);
    else
        check_pass(c, "device.description", p->name, "%s", is_text(info.name) ? info.name : "nothing is told");
    return t->domain_count > 0 ? domains[0].flags : 0;
}

/* ------------------------------------------------------------------ copies, and fences of others */

struct scene {
    struct check *c;
    device_link link;
    inlay_buffer buffers[BUFFERS];
    uint8_t sent[BUFFERS][BYTES], got[BUFFERS][BYTES];
};

static bool is_async(const struct scene *s)
{
    return (s->link.p->table->flags & INLAY_PROVIDER_ASYNC) != 0;
}

/* All buffers at once, or one after the other where the provider has no buffer_copies. */
static inlay_status copy_all(struct scene *s, bool to_device, const inlay_fence *wait, inlay_fence signal,
                             inlay_diag *diag)
{
    const inlay_provider *t = s->link.p->table;
    inlay_copy list[BUFFERS];
    inlay_copy_request r = { .struct_size = sizeof r,
                             .copies = list,
                             .copy_count = BUFFERS,
                             .copy_stride = sizeof list[0],
                             .waits = wait,
                             .wait_count = wait != NULL,
                             .signal = signal };
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < BUFFERS; i++) {
        const inlay_buffer here = { .handle = (uintptr_t)(to_device ? s->sent[i] : s->got[i]), .bytes = BYTES };

        list[i] = to_device ? (inlay_copy){ here, s->buffers[i] } : (inlay_copy){ s->buffers[i], here };
    }
    if (t->buffer_copies != NULL)
        return t->buffer_copies(s->link.p->state, &r, diag);
    for (uint32_t i = 0; i < BUFFERS && status == INLAY_OK; i++)
        status = t->buffer_copy(s->link.p->state, NULL, &list[i].source, &list[i].target, wait, wait != NULL,
                                i == BUFFERS - 1 ? signal : (inlay_fence){ 0, 0 }, diag);
    return status;
}

static void pause_ms(long ms)
{
    const struct timespec t = { 0, ms * 1000000 };

    (void)nanosleep(&t, NULL);
}

/* Is it reached within the patience of the checker? */
static bool comes(inlay_fence f, inlay_status *out_status)
{
    for (int ms = 0; ms < PATIENCE_MS; ms += 5) {
        if (fence_reached(f, out_status))
            return true;
        pause_ms(5);
    }
    return false;
}

/* Up behind a fence that nobody has signalled yet, and down again. */
static void check_copies(struct scene *s)
{
    const char *name = s->link.p->name;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_fence gate = { 0, 1 }, up = device_point(&s->link), down;
    inlay_status status = timeline_create(&gate.timeline, &diag);
    bool early = false;

    for (uint32_t i = 0; i < BUFFERS; i++)
        for (uint32_t k = 0; k < BYTES; k++)
            s->sent[i][k] = (uint8_t)(k * 7 + i * 31 + 1);
    memset(s->got, 0, sizeof s->got);
    check_phase(s->c, "buffer_copies");
    if (status == INLAY_OK)
        status = copy_all(s, true, is_async(s) ? &gate : NULL, up, &diag);
    if (status == INLAY_OK && is_async(s)) {
        pause_ms(GATE_MS);
        early = fence_reached(up, NULL);
        fence_signal(gate, INLAY_OK, NULL);
        if (!comes(up, &status))
            status = inlay_fail(&diag, INLAY_BUSY, "no signal %d ms after the fence was reached", PATIENCE_MS);
    }
    down = device_point(&s->link);
    if (status == INLAY_OK)
        status = copy_all(s, false, NULL, down, &diag);
    if (status == INLAY_OK)
        status = device_wait(&s->link, down, &diag);
    check_phase(s->c, "the checker");
    timeline_destroy(gate.timeline);
    if (status != INLAY_OK || early || memcmp(s->got, s->sent, sizeof s->got) != 0)
        check_fail(s->c, "device.copies", name, "several copies in one request, after its waits and before its signal",
                   "wait for each fence of waits, and signal when all copies are done", "%s",
                   early                ? "a signal before the fence that it was to wait for"
                   : status != INLAY_OK ? diag.text
                                        : "other bytes than were sent");
    else
        check_pass(s->c, "device.copies", name, "%d of %d bytes each", BUFFERS, BYTES);
}

/* What waits for work that failed fails, too. */
static void check_poison(struct scene *s)
{
    inlay_diag diag = INLAY_DIAG_INIT, why = INLAY_DIAG_INIT;
    inlay_fence gate = { 0, 1 }, done = { 0, 1 };
    inlay_status status = timeline_create(&gate.timeline, &diag), ended = INLAY_OK;

    if (status == INLAY_OK)
        status = timeline_create(&done.timeline, &diag);
    if (status != INLAY_OK)
        return;
    check_phase(s->c, "buffer_copies");
    status = copy_all(s, true, &gate, done, &diag);
    (void)inlay_fail(&why, INLAY_IO_ERROR, "what it waited for failed");
    fence_signal(gate, INLAY_IO_ERROR, &why);
    if (status == INLAY_OK && !comes(done, &ended))
        ended = INLAY_BUSY;
    check_phase(s->c, "the checker");
    if (status == INLAY_OK && ended != INLAY_IO_ERROR)
        check_fail(s->c, "device.failures", s->link.p->name, "a signal with the status of the fence that failed",
                   "pass on what fence_wait or the notice says", "%s", inlay_status_text(ended));
    else
        check_pass(s->c, "device.failures", s->link.p->name, "a failed fence is passed on");
    timeline_destroy(done.timeline);
    timeline_destroy(gate.timeline);
}

/* ------------------------------------------------------------------ memory that others see */

static void check_map(struct scene *s)
{
    const inlay_provider *t = s->link.p->table;
    inlay_diag diag = INLAY_DIAG_INIT;
    void *at = NULL;
    inlay_status status = t->buffer_map(s->link.p->state, &s->buffers[0], &at, &diag);

    if (status == INLAY_OK && at != NULL) {
        memset(at, 0x5a, BYTES);
        t->buffer_unmap(s->link.p->state, &s->buffers[0]);
        status = device_copy(&s->link, s->got[0], &s->buffers[0], BYTES, false, &diag);
    }
    if (status != INLAY_OK || at == NULL || s->got[0][0] != 0x5a || s->got[0][BYTES - 1] != 0x5a)
        check_fail(s->c, "device.map", s->link.p->name, "an address at which the host writes what the device reads",
                   "drop INLAY_DOMAIN_HOST_VISIBLE where memory is not mapped", "%s",
                   status != INLAY_OK ? diag.text : "other bytes");
    else
        check_pass(s->c, "device.map", s->link.p->name, "what is written through a mapping is there");
}

/* Host memory as a buffer: what the host writes there is what the device reads, before and after it was told of the
 * memory, and it is the host's again when the buffer has gone. */
static void check_import(struct scene *s)
{
    const inlay_provider *t = s->link.p->table;
    unsigned char *own = aligned_alloc(4096, 2 * 4096);
    inlay_buffer there = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = own == NULL ? INLAY_OUT_OF_MEMORY : INLAY_OK;
    bool same = true;

    if (status == INLAY_OK)
        status = t->import_host(s->link.p->state, s->buffers[0].domain, own, BYTES, &there, &diag);
    for (int round = 0; round < 2 && status == INLAY_OK && same; round++) {
        memset(own, 0x31 + round, BYTES);
        status = device_copy(&s->link, s->got[0], &there, BYTES, false, &diag);
        same = s->got[0][0] == 0x31 + round && s->got[0][BYTES - 1] == 0x31 + round;
    }
    if (there.handle != 0)
        t->buffer_free(s->link.p->state, &there);
    same = same && own != NULL && own[0] == 0x32 && own[BYTES - 1] == 0x32;
    if (status == INLAY_UNSUPPORTED)
        check_skip(s->c, "device.import", s->link.p->name, "%.200s", diag.text);
    else if (status != INLAY_OK || !same)
        check_fail(s->c, "device.import", s->link.p->name, "host memory that import_host makes known, read where it is",
                   "drop INLAY_DOMAIN_IMPORTS_HOST, or answer INLAY_UNSUPPORTED for memory of that kind", "%s",
                   status != INLAY_OK ? diag.text : "other bytes");
    else
        check_pass(s->c, "device.import", s->link.p->name, "what the host writes is there");
    free(own);
}

/* Exported, imported again: the same memory by two handles, of which one goes first. */
static void check_native(struct scene *s)
{
    const inlay_provider *t = s->link.p->table;
    inlay_native_memory m = { .struct_size = sizeof m };
    inlay_buffer twin = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = t->export_native(s->link.p->state, &s->buffers[1], &m, &diag);

    if (status == INLAY_OK && t->import_native != NULL)
        status = t->import_native(s->link.p->state, s->buffers[1].domain, &m, &twin, &diag);
    if (status == INLAY_OK && twin.handle != 0) {
        memset(s->sent[1], 0xa5, BYTES);
        status = device_copy(&s->link, s->sent[1], &twin, BYTES, true, &diag);
        t->buffer_free(s->link.p->state, &twin);
        if (status == INLAY_OK)
            status = device_copy(&s->link, s->got[1], &s->buffers[1], BYTES, false, &diag);
    }
    if (status == INLAY_UNSUPPORTED)
        check_skip(s->c, "device.native", s->link.p->name, "%.200s", diag.text);
    else if (status != INLAY_OK || m.handle == 0 || m.bytes < BYTES || m.device_type == 0 ||
             (twin.handle != 0 && memcmp(s->got[1], s->sent[1], BYTES) != 0))
        check_fail(s->c, "device.native", s->link.p->name,
                   "memory that export_native names and import_native takes back",
                   "fill in handle, bytes and device_type", "%s", status != INLAY_OK ? diag.text : "other memory");
    else
        check_pass(s->c, "device.native", s->link.p->name, "device type %d%s", (int)m.device_type,
                   twin.handle != 0 ? ", taken back" : "");
}

static void check_memory(struct check *c, const loaded_provider *p, uint32_t flags)
{
    const inlay_provider *t = p->table;
    struct scene *s = calloc(1, sizeof *s);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = s != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;

    if (s != NULL) {
        *s = (struct scene){ .c = c, .link.p = p };
        status = timeline_create(&s->link.timeline, &diag);
    }
    for (uint32_t i = 0; i < BUFFERS && status == INLAY_OK; i++) {
        status = t->buffer_alloc(p->state, p->first_domain, BYTES, &s->buffers[i], &diag);
        s->buffers[i].bytes = BYTES;
    }
    if (status == INLAY_OK) {
        check_copies(s);
        if (is_async(s))
            check_poison(s);
        if ((flags & INLAY_DOMAIN_HOST_VISIBLE) != 0)
            check_map(s);
        if ((flags & INLAY_DOMAIN_IMPORTS_HOST) != 0)
            check_import(s);
        if (t->export_native != NULL)
            check_native(s);
    } else {
        check_fail(c, "device.memory", p->name, "three buffers of a page", "say why in diag", "%s: %.200s",
                   inlay_status_text(status), diag.text);
    }
    for (uint32_t i = 0; s != NULL && i < BUFFERS; i++)
        if (s->buffers[i].handle != 0)
            t->buffer_free(p->state, &s->buffers[i]);
    if (s != NULL)
        timeline_destroy(s->link.timeline);
    free(s);
}

void check_group_device(struct check *c)
{
    bool any = false;
    struct world w;

    if (!world_open(c, "device", false, &w))
        return;
    for (uint32_t i = 0; i < w.own_count; i++) {
        const loaded_provider *p = &w.own[i];
        uint32_t flags;

        if (p->table->domain_count == 0 && p->table->enumerate == NULL)
            continue;
        any = true;
        if (!check_unit(c, "%s", p->name))
            continue;
        check_list(c, p->table);
        flags = check_description(c, p);
        if (p->table->domain_count > 0)
            check_memory(c, p, flags);
    }
    if (!any)
        check_skip(c, "device", NULL, "the plugin has no device");
    world_close(&w);
}
