/* Places and barriers of random regions, looked at byte by byte: no dispatch touches what one since the last barrier
 * wrote, or writes what it touched; nothing is overwritten that is read later; and every barrier is one that would be
 * missed. Layers of validation see copies, but not what shaders do to addresses. */
#include "region.h"
#include "cmocka_all.h"
#include <stdlib.h>

enum { MOST = 40, BUFFERS = MOST + 2, SPACE = MOST * 2048 };

struct region {
    inlay_compiled compiled;
    inlay_instance in;
    gpu_device device;
    inlay_diag diag;
    vr_dispatch dispatches[MOST];
    vr_buffer buffers[BUFFERS];
};

static uint32_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static void touch(struct region *r, uint32_t i, uint32_t buffer, uint64_t from, uint64_t bytes, bool write)
{
    vr_dispatch *d = &r->dispatches[i];
    vr_buffer *b = &r->buffers[buffer];

    d->operands[d->operand_count++] = (vr_operand){ .buffer = buffer, .offset = from, .bytes = bytes, .write = write };
    b->first = b->first == INLAY_NONE ? i : b->first;
    b->last = i;
}

/* Each dispatch makes a buffer, of whole or of a part, and reads some of those before; buffers 0 and 1 are an input and
 * an output of the region. */
static void make_region(struct region *r, uint32_t count)
{
    *r = (struct region){ .in = { .dispatch_count = count, .buffer_count = count + 2 } };
    r->in.dispatches = r->dispatches;
    r->in.buffers = r->buffers;
    for (uint32_t k = 0; k < count + 2; k++)
        r->buffers[k] = (vr_buffer){ .kind = k == 0   ? VR_INPUT
                                             : k == 1 ? VR_OUTPUT
                                                      : VR_WORK,
                                     .bytes = 4 + 4 * below(500),
                                     .first = INLAY_NONE };
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t made = below(8) == 0 ? 1 : i + 2, reads = below(4);

        r->dispatches[i].ns = (double)below(100000000);
        touch(r, i, made, 0, r->buffers[made].bytes, true);
        for (uint32_t k = 0; k < reads && i > 0; k++) {
            const uint32_t from = below(5) == 0 ? 0 : 2 + below(i);
            const uint64_t bytes = r->buffers[from].bytes, first = below((uint32_t)bytes);

            if (from == 0 || r->buffers[from].first != INLAY_NONE)
                touch(r, i, from, first, bytes - first, below(12) == 0 && from != 0);
        }
    }
}

static uint64_t place_of(const struct region *r, const vr_operand *o)
{
    const vr_buffer *b = &r->buffers[o->buffer];

    return (b->kind == VR_WORK ? 4096 + b->offset : b->kind == VR_OUTPUT ? 2048 : 0) + o->offset;
}

/* Of each byte: who wrote it last and who touched it last, dispatches from 1 on, and whose buffer's it is. */
static uint32_t written[SPACE + 4096], touched[SPACE + 4096], maker[SPACE + 4096];

/* May dispatch i do what it does, when all from `since` on may still be at work? */
static bool may_run(const struct region *r, uint32_t i, uint32_t since)
{
    for (uint32_t x = 0; x < r->dispatches[i].operand_count; x++) {
        const vr_operand *o = &r->dispatches[i].operands[x];

        for (uint64_t at = place_of(r, o), end = at + o->bytes; at < end; at++) {
            const uint32_t before = o->write ? touched[at] : written[at];
            const bool is_own = o->write || r->buffers[o->buffer].kind != VR_WORK || maker[at] == o->buffer;

            if ((before != 0 && before >= since) || !is_own)
                return false;
        }
    }
    return true;
}

static void run(const struct region *r, uint32_t i)
{
    for (uint32_t x = 0; x < r->dispatches[i].operand_count; x++) {
        const vr_operand *o = &r->dispatches[i].operands[x];

        for (uint64_t at = place_of(r, o), end = at + o->bytes; at < end; at++) {
            touched[at] = i + 1;
            written[at] = o->write ? i + 1 : written[at];
            maker[at] = o->write ? o->buffer : maker[at];
        }
    }
}

/* Is everything done in an order that barriers promise? */
static bool is_ordered(const struct region *r)
{
    uint32_t since = 1;
    bool ok = true;

    memset(written, 0, sizeof written);
    memset(touched, 0, sizeof touched);
    memset(maker, 0, sizeof maker);
    for (uint32_t i = 0; i < r->in.dispatch_count && ok; i++) {
        since = r->dispatches[i].barrier ? i + 1 : since;
        ok = may_run(r, i, since);
        run(r, i);
    }
    return ok;
}

static void plan(struct region *r)
{
    vr_build b = { .c = &r->compiled, .in = &r->in, .g = &r->device, .diag = &r->diag };

    assert_int_equal(vr_plan(&b), INLAY_OK);
    assert_true(r->in.workspace_bytes <= SPACE);
}

static void regions_are_ordered(void **state)
{
    static struct region r;
    uint32_t barriers = 0, all = 0;

    (void)state;
    for (uint32_t n = 0; n < 300; n++) {
        make_region(&r, 1 + below(MOST));
        plan(&r);
        assert_true(is_ordered(&r));
        for (uint32_t i = 0; i < r.in.dispatch_count; i++) {
            all++;
            if (!r.dispatches[i].barrier)
                continue;
            barriers++;
            r.dispatches[i].barrier = false;
            assert_false(is_ordered(&r)); /* the missing one is seen */
            r.dispatches[i].barrier = true;
        }
        free(r.in.segment_ends);
    }
    assert_in_range(barriers, all / 8, all * 7 / 8); /* neither all nor none */
}

/* No submission is expected to take more than 0.2 s, unless it is of one dispatch; with a fault each is. */
static void submissions_are_short(void **state)
{
    static struct region r;

    (void)state;
    for (uint32_t n = 0; n < 100; n++) {
        uint32_t at = 0;

        make_region(&r, 1 + below(MOST));
        r.device.fault = n % 2 == 0 ? GPU_SOUND : GPU_LOST;
        plan(&r);
        for (uint32_t s = 0; s < r.in.segment_count; s++) {
            const uint32_t first = at;
            double ns = 0;

            for (; at < r.in.segment_ends[s]; at++)
                ns += r.dispatches[at].ns;
            assert_true(at > first);
            assert_true(at == first + 1 || (n % 2 == 0 && ns <= 2e8));
        }
        assert_int_equal(at, r.in.dispatch_count);
        free(r.in.segment_ends);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(regions_are_ordered),
                                        cmocka_unit_test(submissions_are_short) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
