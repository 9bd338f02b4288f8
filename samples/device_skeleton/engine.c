/* Engines: what the compiler of the chip makes of the operations of a region. Compilers of real chips take seconds,
 * which option compile_ms simulates. So an engine is stored in the cache of the host, and later sessions start from
 * there. An engine is built where its shapes become known: in compile, or else in specialize. */
#include "device.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ENGINE_MAGIC = 0x31706863, STEP_MS = 5 };

/* A blob; op_count operations follow. The host passes it on only to the build of the plugin that stored it, and for an
 * equal region. An engine is used without further checks, so engine_build() compares the key once more: a copy of this
 * file with other operations must not read an engine that was built from different ones. */
struct engine_head {
    uint32_t magic, op_count;
    uint64_t key; /* of the operations that it was built from */
};

/* FNV-1a; chip_op has no padding. */
static uint64_t key_of(const chip_op *ops, uint32_t op_count)
{
    const unsigned char *bytes = (const void *)ops;
    uint64_t key = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < op_count * sizeof *ops; i++)
        key = (key ^ bytes[i]) * UINT64_C(0x100000001b3);
    return key;
}

static bool is_engine(const void *blob, uint64_t bytes)
{
    const struct engine_head *head = blob;

    return bytes >= sizeof *head && head->magic == ENGINE_MAGIC && (bytes - sizeof *head) % sizeof(chip_op) == 0 &&
           head->op_count == (bytes - sizeof *head) / sizeof(chip_op);
}

inlay_status engine_fingerprint(void *state, inlay_fingerprint *out, inlay_diag *diag)
{
    static const char chip[] = "chip, driver 1"; /* what engines depend on: the device, and its driver's version */

    (void)state, (void)diag;
    out->data = chip;
    out->bytes = sizeof chip - 1;
    return INLAY_OK;
}

inlay_status engine_verdict(void *state, inlay_cache_request *request, inlay_diag *diag)
{
    (void)state;
    if (is_engine(request->blob, request->bytes))
        return INLAY_OK;
    request->verdict = INLAY_CACHE_UNSUPPORTED;
    (void)inlay_fail(diag, INLAY_UNSUPPORTED, "this is not an engine of the chip");
    return INLAY_OK;
}

static void log_engine(const struct device *device, const char *what, uint32_t op_count, uint32_t building)
{
    char line[128];

    (void)snprintf(line, sizeof line, "chip: %s an engine of %u operations, %u at a time", what, op_count, building);
    device->host->log(device->host->ctx, INLAY_LOG_INFO, line);
}

/* The compiler. It uses one thread; the host may call it from several. */
static inlay_status compile_engine(const struct device *device, const struct engine_call *call)
{
    const struct timespec step = { .tv_nsec = STEP_MS * 1000000L };
    inlay_status status = INLAY_OK;

    for (int64_t at = 0; at < device->compile_ms && status == INLAY_OK; at += STEP_MS) {
        (void)nanosleep(&step, NULL);
        if (call->progress != NULL)
            call->progress(call->ctx, (double)at / (double)device->compile_ms, "building an engine");
        if (call->poll != NULL) /* a user who cancels does not wait for the compiler */
            status = call->poll(call->ctx);
    }
    return status;
}

/* A failure is not an error: the engine is built again in the next session. */
static void store_engine(const struct engine_call *call, uint64_t key, const chip_op *ops, uint32_t op_count)
{
    const struct engine_head head = { ENGINE_MAGIC, op_count, key };
    const uint64_t op_bytes = op_count * sizeof *ops;

    if (call->store_begin != NULL && call->store_begin(call->ctx, sizeof head + op_bytes) == INLAY_OK &&
        call->store_write(call->ctx, &head, sizeof head) == INLAY_OK &&
        call->store_write(call->ctx, ops, op_bytes) == INLAY_OK)
        (void)call->store_end(call->ctx);
}

inlay_status engine_build(struct device *device, const struct engine_call *call, chip_op *ops, uint32_t op_count,
                          inlay_diag *diag)
{
    const struct engine_head *head = call->blob;
    const uint64_t key = key_of(ops, op_count);
    inlay_status status;
    uint32_t building;

    if (head != NULL && head->op_count == op_count && head->key == key) { /* engine_verdict() has checked the rest */
        memcpy(ops, head + 1, op_count * sizeof *ops);
        log_engine(device, "loaded", op_count, 1);
        return INLAY_OK;
    }
    building = __atomic_add_fetch(&device->building, 1, __ATOMIC_RELAXED);
    status = compile_engine(device, call);
    (void)__atomic_sub_fetch(&device->building, 1, __ATOMIC_RELAXED);
    if (status != INLAY_OK)
        return inlay_fail(diag, status, "the compiler of the chip was stopped");
    log_engine(device, "built", op_count, building);
    store_engine(call, key, ops, op_count);
    return INLAY_OK;
}
