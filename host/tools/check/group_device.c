/* Devices: their list and description; copying, mapping and sharing of their memory; fences of other providers. */
#include "base/provider_calls.h"
#include "base/sized_struct.h"
#include "check/descriptors.h"
#include "check/harness.h"
#include "check/host.h"
#include "threads/fence.h"
#include "plugin/plugin.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 4096 + 64, BUFFERS = 3, GATE_MS = 20, PATIENCE_MS = 3000 };

#define WIDE (UINT64_C(1) << 32) /* values of fences above it do not fit into 32 bits */

typedef struct device_count {
    struct check *check;
    const inlay_provider *provider;
    uint32_t count, usable;
    bool faulty;
} device_count;

static bool is_text(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static bool has_option(const inlay_provider *provider, const char *name)
{
    for (uint32_t i = 0; i < provider->option_count; i++) {
        const inlay_option *option = INLAY_AT(inlay_option, provider->options, provider->option_stride, i);

        if (option->name != NULL && strcmp(option->name, name) == 0)
            return true;
    }
    return false;
}

static inlay_status check_device_info(void *user, const inlay_device_info *info)
{
    device_count *count = user;

    if (!INLAY_HAS(info, flags) || !is_text(info->name) || is_text(info->option) != is_text(info->value) ||
        (is_text(info->option) && !has_option(count->provider, info->option)) || info->kind < INLAY_DEVICE_CPU ||
        info->kind > INLAY_DEVICE_OTHER) {
        check_fail(count->check, "device.list", count->provider->name,
                   "a name, a kind, and an option of the provider with its value, or none", "fill in inlay_device_info",
                   "device %u '%s', option '%s', kind %u", count->count, is_text(info->name) ? info->name : "",
                   is_text(info->option) ? info->option : "", info->kind);
        count->faulty = true;
    }
    count->count++;
    count->usable += info->unusable == NULL;
    return INLAY_OK;
}

static inlay_status stop_at_first(void *user, const inlay_device_info *info)
{
    (void)info;
    ++*(uint32_t *)user;
    return INLAY_CANCELLED;
}

/* Checks enumerate(). */
static void check_list(struct check *check, const inlay_provider *provider)
{
    device_count count = { .check = check, .provider = provider };
    inlay_enumerate_request request = {
        .struct_size = sizeof request, .host = check_host(), .user = &count, .device = check_device_info
    };
    inlay_diag diag = INLAY_DIAG_INIT, ignored = INLAY_DIAG_INIT;
    inlay_status status;
    uint32_t calls = 0;

    if (provider->enumerate == NULL)
        return;
    check_phase(check, "enumerate");
    status = provider->enumerate(provider->ctx, &request, &diag);
    check_phase(check, "the checker");
    if (status == INLAY_UNSUPPORTED && count.count == 0 && is_text(diag.text)) {
        check_pass(check, "device.list", provider->name, "no device: %.200s", diag.text);
        return;
    }
    if (status != INLAY_OK) {
        check_fail(check, "device.list", provider->name,
                   "INLAY_OK, or INLAY_UNSUPPORTED with a message if no device exists", "write the reason to diag",
                   "%s after %u devices: %.200s", inlay_status_text(status), count.count, diag.text);
        return;
    }
    request.user = &calls;
    request.device = stop_at_first;
    if (count.count > 0 && (provider->enumerate(provider->ctx, &request, &ignored) != INLAY_CANCELLED || calls != 1)) {
        check_fail(check, "device.list", provider->name, "no further call after the callback returned an error",
                   "return what the callback returned", "%u more calls", calls - 1);
        return;
    }
    if (!count.faulty)
        check_pass(check, "device.list", provider->name, "%u devices, %u of them usable", count.count, count.usable);
}

/* Checks describe(). Returns the first domain as it is after create. */
static inlay_domain_info check_description(struct check *check, const loaded_provider *provider)
{
    const inlay_provider *table = provider->table;
    inlay_device_info info = { .struct_size = sizeof info };
    inlay_domain_info domains[8];
    const inlay_describe_request request = { .struct_size = sizeof request,
                                             .device = &info,
                                             .domains = domains,
                                             .domain_count = table->domain_count,
                                             .domain_stride = sizeof domains[0] };
    const inlay_domain_info none = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    domains[0] = none;
    if (table->domain_count > 8)
        return none;
    for (uint32_t i = 0; i < table->domain_count; i++)
        sized_struct_read(&domains[i], sizeof domains[i],
                          INLAY_AT(inlay_domain_info, table->domains, table->domain_stride, i), table->domain_stride);
    if (table->describe == NULL)
        return domains[0];
    check_phase(check, "describe");
    status = table->describe(provider->state, &request, &diag);
    check_phase(check, "the checker");
    for (uint32_t i = 0; i < table->domain_count && status == INLAY_OK; i++) {
        const uint64_t alignment = domains[i].alignment;

        if (is_text(domains[i].name) && alignment != 0 && (alignment & (alignment - 1)) == 0 &&
            alignment >= INLAY_AT(inlay_domain_info, table->domains, table->domain_stride, i)->alignment &&
            ((domains[i].flags & INLAY_DOMAIN_HOST_VISIBLE) == 0 || table->buffer_map != NULL))
            continue;
        check_fail(check, "device.description", provider->name,
                   "domains with a name, an alignment not smaller than before create, "
                   "and the functions that their flags require",
                   "leave unknown members unchanged", "domain %u is aligned to %llu, flags 0x%x", i,
                   (unsigned long long)alignment, domains[i].flags);
        return none;
    }
    if (status != INLAY_OK)
        check_fail(check, "device.description", provider->name, "INLAY_OK", "leave unknown members unchanged",
                   "%s: %.200s", inlay_status_text(status), diag.text);
    else
        check_pass(check, "device.description", provider->name, "%s", is_text(info.name) ? info.name : "no name");
    return domains[0];
}

struct device_test {
    struct check *check;
    device_link link;
    inlay_buffer buffers[BUFFERS];
    uint8_t sent[BUFFERS][BYTES], got[BUFFERS][BYTES];
};

static bool is_async(const struct device_test *test)
{
    return (test->link.provider->table->flags & INLAY_PROVIDER_ASYNC) != 0;
}

/* Copies all buffers in one request. */
static inlay_status copy_all(struct device_test *test, bool to_device, const inlay_fence *wait, inlay_fence signal,
                             inlay_diag *diag)
{
    const inlay_provider *table = test->link.provider->table;
    inlay_copy list[BUFFERS];
    inlay_copy_request request = { .struct_size = sizeof request,
                                   .copies = list,
                                   .copy_count = BUFFERS,
                                   .copy_stride = sizeof list[0],
                                   .waits = wait,
                                   .wait_count = wait != NULL,
                                   .signal = signal };

    for (uint32_t i = 0; i < BUFFERS; i++) {
        const inlay_buffer here = { .handle = (uintptr_t)(to_device ? test->sent[i] : test->got[i]), .bytes = BYTES };

        list[i] = to_device ? (inlay_copy){ here, test->buffers[i] } : (inlay_copy){ test->buffers[i], here };
    }
    return table->buffer_copy(test->link.provider->state, &request, diag);
}

static void pause_ms(long ms)
{
    const struct timespec timespec = { 0, ms * 1000000 };

    (void)nanosleep(&timespec, NULL);
}

/* Is the fence reached within PATIENCE_MS? */
static bool wait_reached(inlay_fence fence, inlay_status *out_status)
{
    for (int ms = 0; ms < PATIENCE_MS; ms += 5) {
        if (fence_reached(fence, out_status))
            return true;
        pause_ms(5);
    }
    return false;
}

/* Uploads with a wait on a fence that is not signalled yet, then downloads. The values of the fences need 64 bits.
 * False: the copies do not work. */
static bool check_copies(struct device_test *test)
{
    const char *name = test->link.provider->name;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_fence gate = { 0, WIDE + 1 }, up = device_point(&test->link), down;
    bool ok;
    inlay_status status = timeline_create(&gate.timeline, &diag);
    bool early = false;

    for (uint32_t i = 0; i < BUFFERS; i++)
        for (uint32_t k = 0; k < BYTES; k++)
            test->sent[i][k] = (uint8_t)(k * 7 + i * 31 + 1);
    memset(test->got, 0, sizeof test->got);
    check_phase(test->check, "buffer_copy");
    if (status == INLAY_OK)
        fence_signal((inlay_fence){ gate.timeline, 1 }, INLAY_OK, NULL);
    if (status == INLAY_OK)
        status = copy_all(test, true, is_async(test) ? &gate : NULL, up, &diag);
    if (status == INLAY_OK && is_async(test)) {
        pause_ms(GATE_MS);
        early = fence_reached(up, NULL);
        fence_signal(gate, INLAY_OK, NULL);
        if (!wait_reached(up, &status))
            status = inlay_fail(&diag, INLAY_BUSY, "no signal %d ms after the fence was reached", PATIENCE_MS);
    }
    down = device_point(&test->link);
    if (status == INLAY_OK)
        status = copy_all(test, false, NULL, down, &diag);
    if (status == INLAY_OK)
        status = device_wait(&test->link, down, &diag);
    check_phase(test->check, "the checker");
    timeline_destroy(gate.timeline);
    ok = status == INLAY_OK && !early && memcmp(test->got, test->sent, sizeof test->got) == 0;
    if (!ok)
        check_fail(test->check, "device.copies", name,
                   "several copies in one request, after its waits and before its signal",
                   "wait for each fence of waits, and signal when all copies are done", "%s",
                   early                ? "it signalled before the fence that it had to wait for"
                   : status != INLAY_OK ? diag.text
                                        : "the bytes read differ from those written");
    else
        check_pass(test->check, "device.copies", name, "%d of %d bytes each", BUFFERS, BYTES);
    return ok;
}

/* Copies of no bytes, alone and among others: a tensor without elements is copied like any other. */
static void check_empty_copies(struct device_test *test)
{
    const inlay_provider *table = test->link.provider->table;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;

    memset(test->got, 0, sizeof test->got);
    for (uint32_t others = 0; others < 2 && status == INLAY_OK; others++) {
        const inlay_buffer here = { .handle = (uintptr_t)test->got[0] },
                           full = { .handle = (uintptr_t)test->got[1], .bytes = BYTES };
        inlay_buffer nothing = test->buffers[0];
        const inlay_copy list[2] = { { nothing, here }, { test->buffers[1], full } };
        const inlay_copy_request request = { .struct_size = sizeof request,
                                             .copies = list,
                                             .copy_count = 1 + others,
                                             .copy_stride = sizeof list[0],
                                             .signal = device_point(&test->link) };

        nothing.bytes = 0;
        check_phase(test->check, "buffer_copy of 0 bytes");
        status = table->buffer_copy(test->link.provider->state, &request, &diag);
        if (status == INLAY_OK && is_async(test) && !wait_reached(request.signal, &status))
            status = inlay_fail(&diag, INLAY_BUSY, "no signal in %d ms", PATIENCE_MS);
    }
    check_phase(test->check, "the checker");
    if (status != INLAY_OK || memcmp(test->got[1], test->sent[1], BYTES) != 0)
        check_fail(test->check, "device.copies", test->link.provider->name, "copies of 0 bytes succeed",
                   "skip the bytes, not the signal and not the other copies", "%s",
                   status != INLAY_OK ? diag.text : "the copy after a copy of 0 bytes was not made");
}

/* Work that waits for a failed fence must fail, too. */
static void check_failed_fence(struct device_test *test)
{
    inlay_diag diag = INLAY_DIAG_INIT, reason = INLAY_DIAG_INIT;
    inlay_fence gate = { 0, 1 }, done = { 0, 1 };
    inlay_status status = timeline_create(&gate.timeline, &diag), ended = INLAY_OK;

    if (status == INLAY_OK)
        status = timeline_create(&done.timeline, &diag);
    if (status != INLAY_OK) {
        timeline_destroy(gate.timeline);
        return;
    }
    check_phase(test->check, "buffer_copy");
    status = copy_all(test, true, &gate, done, &diag);
    (void)inlay_fail(&reason, INLAY_IO_ERROR, "the work that it waited for failed");
    fence_signal(gate, INLAY_IO_ERROR, &reason);
    if (status == INLAY_OK && !wait_reached(done, &ended))
        ended = INLAY_BUSY;
    check_phase(test->check, "the checker");
    if (status != INLAY_OK || ended != INLAY_IO_ERROR)
        check_fail(test->check, "device.failures", test->link.provider->name,
                   "a signal with the status of the fence that failed",
                   "pass on the status from fence_wait or the notification", "%s",
                   status != INLAY_OK ? diag.text : inlay_status_text(ended));
    else
        check_pass(test->check, "device.failures", test->link.provider->name, "a failed fence is passed on");
    timeline_destroy(done.timeline);
    timeline_destroy(gate.timeline);
}

/* Writes through a mapping of a buffer; the device must read the same bytes. */
static void check_map(struct device_test *test)
{
    const inlay_provider *table = test->link.provider->table;
    inlay_diag diag = INLAY_DIAG_INIT;
    void *at = NULL;
    inlay_status status = call_map(table, test->link.provider->state, &test->buffers[0], &at, &diag);

    if (status == INLAY_OK && at != NULL) {
        memset(at, 0x5a, BYTES);
        call_unmap(table, test->link.provider->state, &test->buffers[0]);
        status = device_copy(&test->link, test->got[0], &test->buffers[0], BYTES, false, &diag);
    }
    if (status != INLAY_OK || at == NULL || test->got[0][0] != 0x5a || test->got[0][BYTES - 1] != 0x5a)
        check_fail(test->check, "device.map", test->link.provider->name,
                   "an address through which the host writes the device's memory",
                   "drop INLAY_DOMAIN_HOST_VISIBLE if memory cannot be mapped", "%s",
                   status != INLAY_OK ? diag.text : "the device reads other bytes");
    else
        check_pass(test->check, "device.map", test->link.provider->name,
                   "the device reads what the host wrote through the mapping");
}

/* Imports host memory as a buffer: the device must read what the host writes there, before and after the first copy.
 * The memory must keep its content when the buffer is freed. */
static void check_import(struct device_test *test)
{
    const inlay_provider *table = test->link.provider->table;
    unsigned char *own = aligned_alloc(4096, 2 * 4096);
    const inlay_native_memory memory = host_memory(own, BYTES);
    inlay_buffer imported = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = own == NULL ? INLAY_OUT_OF_MEMORY : INLAY_OK;
    bool same = true;

    if (status == INLAY_OK)
        status = call_import(table, test->link.provider->state, test->buffers[0].domain, &memory, 0, &imported, &diag);
    for (int round = 0; round < 2 && status == INLAY_OK && same; round++) {
        memset(own, 0x31 + round, BYTES);
        status = device_copy(&test->link, test->got[0], &imported, BYTES, false, &diag);
        same = test->got[0][0] == 0x31 + round && test->got[0][BYTES - 1] == 0x31 + round;
    }
    if (imported.handle != 0)
        call_free(table, test->link.provider->state, &imported);
    same = same && own != NULL && own[0] == 0x32 && own[BYTES - 1] == 0x32;
    if (status == INLAY_UNSUPPORTED)
        check_skip(test->check, "device.import", test->link.provider->name, "%.200s", diag.text);
    else if (status != INLAY_OK || !same)
        check_fail(test->check, "device.import", test->link.provider->name,
                   "imported host memory, which the device reads in place",
                   "drop INLAY_DOMAIN_IMPORTS_HOST, or answer INLAY_UNSUPPORTED for memory of that kind", "%s",
                   status != INLAY_OK ? diag.text : "the device reads other bytes");
    else
        check_pass(test->check, "device.import", test->link.provider->name, "the device reads what the host wrote");
    free(own);
}

/* Exports a buffer and imports it again: the same memory then has two handles, which are freed one after the other. */
static void check_native(struct device_test *test)
{
    const inlay_provider *table = test->link.provider->table;
    const inlay_export_request request = { .struct_size = sizeof request, .buffer = &test->buffers[1] };
    inlay_native_memory memory = { .struct_size = sizeof memory };
    inlay_buffer twin = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(table->buffer_export != NULL);
    status = table->buffer_export(test->link.provider->state, &request, &memory, &diag);

    if (status == INLAY_OK && table->buffer_import != NULL)
        status = call_import(table, test->link.provider->state, test->buffers[1].domain, &memory, 0, &twin, &diag);
    if (status == INLAY_OK && twin.handle != 0) {
        memset(test->sent[1], 0xa5, BYTES);
        status = device_copy(&test->link, test->sent[1], &twin, BYTES, true, &diag);
        call_free(table, test->link.provider->state, &twin);
        if (status == INLAY_OK)
            status = device_copy(&test->link, test->got[1], &test->buffers[1], BYTES, false, &diag);
    }
    if (status == INLAY_UNSUPPORTED)
        check_skip(test->check, "device.native", test->link.provider->name, "%.200s", diag.text);
    else if (status != INLAY_OK || memory.handle == 0 || memory.bytes < BYTES || memory.device_type == 0 ||
             (twin.handle != 0 && memcmp(test->got[1], test->sent[1], BYTES) != 0))
        check_fail(test->check, "device.native", test->link.provider->name,
                   "memory that buffer_export exports and buffer_import accepts",
                   "fill in handle, bytes and device_type", "%s",
                   status != INLAY_OK ? diag.text : "the imported memory is not the exported one");
    else
        check_pass(test->check, "device.native", test->link.provider->name, "device type %d%s", (int)memory.device_type,
                   twin.handle != 0 ? ", imported again" : "");
}

static void check_memory(struct check *check, const loaded_provider *provider, const inlay_domain_info *domain)
{
    const inlay_provider *table = provider->table;
    struct device_test *test = calloc(1, sizeof *test);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = test != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;

    INLAY_CHECK(table->domain_count > 0);
    if (test != NULL) {
        *test = (struct device_test){ .check = check, .link.provider = provider };
        status = timeline_create(&test->link.timeline, &diag);
    }
    for (uint32_t i = 0; i < BUFFERS && status == INLAY_OK; i++)
        status = call_alloc(table, provider->state, provider->first_domain, provider->first_domain, BYTES,
                            (buffer_use){ .lifetime = INLAY_LIFETIME_RUN }, &test->buffers[i], &diag);
    if (status == INLAY_OK) {
        test->link.point = WIDE;
        if (!check_copies(test))
            goto done;
        check_empty_copies(test);
        if (is_async(test))
            check_failed_fence(test);
        if ((domain->flags & INLAY_DOMAIN_HOST_VISIBLE) != 0)
            check_map(test);
        if ((domain->flags & INLAY_DOMAIN_IMPORTS_HOST) != 0)
            check_import(test);
        if (table->buffer_export != NULL)
            check_native(test);
        check_descriptors(check, &test->link, domain);
    } else if (status == INLAY_UNSUPPORTED) { /* see inlay_describe_request */
        check_skip(check, "device.memory", provider->name, "%.200s", diag.text);
    } else {
        check_fail(check, "device.memory", provider->name, "three buffers of a page", "write the reason to diag",
                   "%s: %.200s", inlay_status_text(status), diag.text);
    }
done:
    for (uint32_t i = 0; test != NULL && i < BUFFERS; i++)
        if (test->buffers[i].handle != 0)
            call_free(table, provider->state, &test->buffers[i]);
    if (test != NULL)
        timeline_destroy(test->link.timeline);
    free(test);
}

void check_group_device(struct check *check)
{
    bool any = false;
    struct fixture fixture;

    if (!fixture_open(check, "device", false, &fixture))
        return;
    for (uint32_t i = 0; i < fixture.own_count; i++) {
        const loaded_provider *provider = &fixture.own[i];
        inlay_domain_info domain;

        if (provider->table->domain_count == 0 && provider->table->enumerate == NULL)
            continue;
        any = true;
        if (!check_unit(check, "%s", provider->name))
            continue;
        check_list(check, provider->table);
        domain = check_description(check, provider);
        if (provider->table->domain_count > 0)
            check_memory(check, provider, &domain);
    }
    if (!any)
        check_skip(check, "device", NULL, "the plugin has no device");
    fixture_close(&fixture);
}
