/* plan/stream: which weights stay in memory, and reading of the others. */
#include "folder.h"
#include "inlay/extensions.h"
#include "plan/stream/stream.h"
#include "forbid_call.h"
#include "page_cache.h"
#include <linux/magic.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

enum { MB = 1 << 20, MAX_STEPS = 16 };

/* A mapped file, and steps that read parts of it. */
struct fixture {
    struct folder folder;
    char path[80];
    char *map;
    size_t bytes, used;
    struct weight_stream *stream;
    struct step_weights *steps[MAX_STEPS];
    uint32_t step_count;
};

static struct fixture begin(size_t bytes)
{
    struct fixture fixture = { .folder = folder_make(), .bytes = bytes, .stream = weight_stream_create() };
    char *data = malloc(bytes);
    int fd;

    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)(i >> 12);
    (void)snprintf(fixture.path, sizeof fixture.path, "%s/weights", fixture.folder.path);
    fd = open(fixture.path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    free(data);
    fixture.map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(fixture.map != MAP_FAILED);
    assert_int_equal(close(fd), 0);
    assert_non_null(fixture.stream);
    return fixture;
}

static void end(struct fixture *fixture)
{
    for (uint32_t i = 0; i < fixture->step_count; i++)
        weight_stream_remove(fixture->stream, fixture->steps[i]);
    weight_stream_destroy(fixture->stream);
    assert_int_equal(munmap(fixture->map, fixture->bytes), 0);
    assert_int_equal(unlink(fixture->path), 0);
    assert_int_equal(rmdir(fixture->folder.path), 0);
}

/* Adds a step that reads the next `bytes` bytes of the file. */
static void add_step(struct fixture *fixture, size_t bytes, stream_use use, bool repeated)
{
    struct step_weights **step = &fixture->steps[fixture->step_count];

    assert_true(fixture->used + bytes <= fixture->bytes && fixture->step_count < MAX_STEPS);
    assert_true(weight_stream_add(fixture->stream, step, fixture->map + fixture->used, bytes, use));
    weight_stream_place(fixture->stream, *step, fixture->step_count++, repeated);
    fixture->used += bytes;
}

static uint64_t no_spare(void *ctx)
{
    (void)ctx;
    return 0;
}

static bool stays(const struct fixture *fixture, uint32_t step)
{
    const stream_sizes sizes = weight_stream_sizes_of(fixture->stream, fixture->steps[step]);

    assert_true((sizes.resident == 0) != (sizes.streamed == 0));
    return sizes.resident > 0;
}

/* Three runs; the contents are those of the file. */
static void run(const struct fixture *fixture)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    for (uint32_t i = 0; i < 3 * fixture->step_count; i++) {
        struct step_weights *step = fixture->steps[i % fixture->step_count];

        if (weight_stream_enter(fixture->stream, step, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        for (size_t at = 0; at < fixture->used; at += 4096)
            assert_int_equal(fixture->map[at], (char)(at >> 12));
        weight_stream_leave(fixture->stream, step);
    }
}

static void all_stay_if_they_fit(void **state)
{
    struct fixture fixture = begin(4 * MB);
    stream_sizes sizes;

    (void)state;
    for (int i = 0; i < 4; i++)
        add_step(&fixture, MB, STREAM_ALL, false);
    assert_int_equal(weight_stream_largest(fixture.stream), MB);
    assert_int_equal(weight_stream_begin(fixture.stream, 4 * MB, no_spare, NULL), 4 * MB);
    sizes = weight_stream_sizes(fixture.stream);
    assert_int_equal(sizes.resident, 4 * MB);
    assert_int_equal(sizes.streamed, 0);
    run(&fixture);
    assert_true(weight_stream_read_ns(fixture.stream) == 0); /* runs read nothing */
    end(&fixture);
}

/* 4 of 8 MB fit: 2 are the window for reading ahead, so 2 stay in memory; these are not adjacent. */
static void the_choice_is_spread(void **state)
{
    struct fixture fixture = begin(8 * MB);
    uint32_t count = 0;

    (void)state;
    for (int i = 0; i < 8; i++)
        add_step(&fixture, MB, STREAM_ALL, false);
    assert_int_equal(weight_stream_begin(fixture.stream, 4 * MB, no_spare, NULL), 3 * MB);
    for (uint32_t i = 0; i < 8; i++) {
        count += stays(&fixture, i);
        assert_false(i > 0 && stays(&fixture, i) && stays(&fixture, i - 1));
    }
    assert_int_equal(count, 2);
    assert_true(weight_stream_read_ns(fixture.stream) == 0); /* nothing was read yet */
    run(&fixture);
    assert_true(weight_stream_read_ns(fixture.stream) > 0);
    assert_true(weight_stream_read_ns(NULL) == 0);
    weight_stream_trim(fixture.stream);
    run(&fixture);
    end(&fixture);
}

/* Otherwise 4 MB would always be kept free to read the large step. */
static void a_large_step_stays(void **state)
{
    struct fixture fixture = begin(8 * MB);

    (void)state;
    for (int i = 0; i < 8; i++)
        add_step(&fixture, i == 5 ? 4 * MB : MB / 4, STREAM_ALL, false);
    assert_true(weight_stream_begin(fixture.stream, 5 * MB, no_spare, NULL) <= 5 * MB);
    assert_true(stays(&fixture, 5));
    run(&fixture);
    end(&fixture);
}

/* Weights in the body of a loop stay before others do. */
static void repeated_weights_stay(void **state)
{
    struct fixture fixture = begin(8 * MB);

    (void)state;
    for (int i = 0; i < 8; i++)
        add_step(&fixture, MB, STREAM_ALL, i == 6 || i == 7);
    assert_int_equal(weight_stream_begin(fixture.stream, 4 * MB, no_spare, NULL), 3 * MB);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(stays(&fixture, i), i >= 6);
    run(&fixture);
    end(&fixture);
}

/* A table is read page by page, a weight that two steps read counts once, and small ones do not count. */
static void sizes_are_counted(void **state)
{
    struct fixture fixture = begin(8 * MB);
    stream_sizes sizes;

    (void)state;
    add_step(&fixture, 4 * MB, STREAM_FEW, false);
    for (int i = 0; i < 3; i++)
        add_step(&fixture, MB, STREAM_ALL, false);
    assert_true(weight_stream_add(fixture.stream, &fixture.steps[3], fixture.map + 4 * MB, MB, STREAM_ALL));
    assert_true(weight_stream_add(fixture.stream, &fixture.steps[3], fixture.map + 7 * MB, 1000, STREAM_ALL));
    assert_int_equal(weight_stream_largest(fixture.stream), 2 * MB);
    assert_int_equal(weight_stream_begin(fixture.stream, 2 * MB, no_spare, NULL), 2 * MB);
    sizes = weight_stream_sizes(fixture.stream);
    assert_int_equal(sizes.on_demand, 4 * MB);
    assert_int_equal(sizes.resident, 0);
    assert_int_equal(sizes.streamed, 3 * MB);
    assert_int_equal(weight_stream_sizes_of(fixture.stream, fixture.steps[3]).streamed, 2 * MB);
    assert_int_equal(weight_stream_sizes_of(fixture.stream, NULL).streamed, 0);
    run(&fixture);
    end(&fixture);
}

static void a_truncated_file_is_an_error(void **state)
{
    struct fixture fixture = begin(8 * MB);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;

    (void)state;
    for (int i = 0; i < 8; i++)
        add_step(&fixture, MB, STREAM_ALL, false);
    (void)weight_stream_begin(fixture.stream, 4 * MB, no_spare, NULL);
    run(&fixture);
    assert_int_equal(truncate(fixture.path, 4 * MB), 0);
    for (uint32_t i = 0; i < 8; i++) {
        status = weight_stream_enter(fixture.stream, fixture.steps[i], &diag);
        assert_int_equal(status, i < 4 ? INLAY_OK : INLAY_IO_ERROR);
        if (status == INLAY_OK)
            weight_stream_leave(fixture.stream, fixture.steps[i]);
    }
    assert_non_null(strstr(diag.text, "truncated"));
    end(&fixture);
}

/* 16 experts with weights of 256 KiB and scales of 64 KiB each; there is room for three experts. */
enum { EXPERTS = 16, WEIGHTS = 256 << 10, SCALES = 64 << 10, EXPERT = WEIGHTS + SCALES };

static uint64_t room_for_two(void *ctx)
{
    (void)ctx;
    return 2 * EXPERT;
}

static struct fixture begin_experts(void)
{
    struct fixture fixture = begin(8 * MB);

    add_step(&fixture, EXPERTS * WEIGHTS, STREAM_ALL, false);
    assert_true(weight_stream_divide(fixture.stream, fixture.steps, fixture.map, EXPERTS * WEIGHTS, EXPERTS));
    assert_true(
        weight_stream_divide(fixture.stream, fixture.steps, fixture.map + fixture.used, EXPERTS * SCALES, EXPERTS));
    assert_int_equal(weight_stream_largest(fixture.stream), EXPERT);
    assert_int_equal(weight_stream_begin(fixture.stream, EXPERT, room_for_two, NULL), EXPERT);
    assert_int_equal(weight_stream_sizes(fixture.stream).on_demand, EXPERTS * EXPERT);
    return fixture;
}

/* Asks for the parts; returns how many of them were in memory. */
static uint32_t use_parts(const struct fixture *fixture, const int64_t *parts, uint32_t count)
{
    const void *const data[] = { fixture->map, fixture->map + EXPERTS * WEIGHTS };
    const run_parts *requests = weight_stream_parts(fixture->stream);
    inlay_pack_parts wanted = {
        .struct_size = sizeof wanted, .data = data, .parts = parts, .data_count = 2, .part_count = count
    };

    assert_int_equal(requests->need(requests->ctx, &wanted, &wanted.part_count), INLAY_OK);
    for (uint32_t p = 0; p < wanted.part_count; p++) {
        for (size_t at = (size_t)parts[p] * WEIGHTS; at < (size_t)(parts[p] + 1) * WEIGHTS; at += 4096)
            assert_int_equal(fixture->map[at], (char)(at >> 12));
        for (size_t at = (size_t)parts[p] * SCALES; at < (size_t)(parts[p] + 1) * SCALES; at += 4096)
            assert_int_equal(fixture->map[EXPERTS * WEIGHTS + at], (char)((EXPERTS * WEIGHTS + at) >> 12));
    }
    requests->done(requests->ctx, &wanted);
    return wanted.part_count;
}

/* Uses all these experts: a step gets those that are in memory, or else the first one, while the others are read. */
static void use_all(const struct fixture *fixture, const int64_t *parts, uint32_t count)
{
    for (uint32_t at = 0; at < count;) {
        const uint32_t got = use_parts(fixture, parts + at, count - at);

        assert_in_range(got, 1, count - at);
        at += got;
    }
}

/* Are exactly these experts in the system's cache of the file? */
static void expect_parts(const struct fixture *fixture, const int64_t *parts, uint32_t count)
{
    for (int64_t e = 0; e < EXPERTS; e++) {
        bool used = false;

        for (uint32_t p = 0; p < count; p++)
            used |= parts[p] == e;
        assert_int_equal(page_cache_pages(fixture->map + e * WEIGHTS, WEIGHTS), used ? WEIGHTS / page_bytes() : 0);
        assert_int_equal(page_cache_pages(fixture->map + EXPERTS * WEIGHTS + e * SCALES, SCALES),
                         used ? SCALES / page_bytes() : 0);
    }
}

static void only_parts_that_are_used_are_read(void **state)
{
    struct fixture fixture = begin_experts();
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    if (!page_cache_drop(fixture.path, fixture.map, fixture.bytes)) {
        end(&fixture);
        skip(); /* a file system in memory */
    }
    assert_int_equal(weight_stream_enter(fixture.stream, fixture.steps[0], &diag), INLAY_OK);
    assert_int_equal(use_parts(&fixture, (int64_t[]){ 3, 9 }, 2), 1);
    assert_int_equal(use_parts(&fixture, (int64_t[]){ 9 }, 1), 1);
    expect_parts(&fixture, (int64_t[]){ 3, 9 }, 2);
    assert_int_equal(use_parts(&fixture, (int64_t[]){ 3 }, 1), 1);
    assert_int_equal(use_parts(&fixture, (int64_t[]){ 5 }, 1), 1);
    expect_parts(&fixture, (int64_t[]){ 3, 5, 9 }, 3);
    assert_int_equal(use_parts(&fixture, (int64_t[]){ 1 }, 1), 1);
    expect_parts(&fixture, (int64_t[]){ 1, 3, 5 }, 3);
    weight_stream_leave(fixture.stream, fixture.steps[0]);
    assert_int_equal(weight_stream_enter(fixture.stream, fixture.steps[0], &diag), INLAY_OK);
    expect_parts(&fixture, (int64_t[]){ 1, 5 }, 2); /* memory for an expert is free until the step asks for it */
    weight_stream_leave(fixture.stream, fixture.steps[0]);
    weight_stream_trim(fixture.stream);
    expect_parts(&fixture, NULL, 0);
    end(&fixture);
}

/* A step that uses more experts than there is room for gets some of them at a time; of those in memory, all. */
static void parts_come_in_groups(void **state)
{
    struct fixture fixture = begin_experts();
    inlay_diag diag = INLAY_DIAG_INIT;
    int64_t all[EXPERTS];

    (void)state;
    for (int64_t e = 0; e < EXPERTS; e++)
        all[e] = e;
    assert_int_equal(weight_stream_enter(fixture.stream, fixture.steps[0], &diag), INLAY_OK);
    use_all(&fixture, all, EXPERTS);
    assert_int_equal(use_parts(&fixture, all + EXPERTS - 3, 3), 3);
    weight_stream_leave(fixture.stream, fixture.steps[0]);
    end(&fixture);
}

static void bad_parts_are_errors(void **state)
{
    struct fixture fixture = begin_experts();
    const void *const data[] = { fixture.map };
    const run_parts *requests = weight_stream_parts(fixture.stream);
    inlay_pack_parts wanted = {
        .struct_size = sizeof wanted, .data = data, .parts = (int64_t[]){ EXPERTS }, .data_count = 1, .part_count = 1
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t count;

    (void)state;
    assert_int_equal(weight_stream_enter(fixture.stream, fixture.steps[0], &diag), INLAY_OK);
    assert_int_equal(requests->need(requests->ctx, &wanted, &count), INLAY_INVALID_ARGUMENT);
    assert_int_equal(truncate(fixture.path, 4096), 0);
    wanted.parts = (int64_t[]){ 7 };
    assert_int_equal(requests->need(requests->ctx, &wanted, &count), INLAY_IO_ERROR);
    weight_stream_explain(fixture.stream, &diag);
    assert_non_null(strstr(diag.text, "truncated"));
    weight_stream_leave(fixture.stream, fixture.steps[0]);
    assert_null(weight_stream_parts(NULL));
    end(&fixture);
}

/* Requests a part and checks its data at the returned address. Returns true if the address is in the mapping. */
static bool use_place(const struct fixture *fixture, const void *data, uint64_t bytes, int64_t index)
{
    const run_parts *requests = weight_stream_parts(fixture->stream);
    const void *place = NULL, *mapped = (const char *)data + (uint64_t)index * bytes;
    inlay_pack_parts wanted = {
        .struct_size = sizeof wanted, .data = &data, .parts = &index, .data_count = 1, .part_count = 1, .places = &place
    };

    assert_int_equal(requests->need(requests->ctx, &wanted, &wanted.part_count), INLAY_OK);
    assert_int_equal(wanted.part_count, 1);
    assert_non_null(place);
    assert_int_equal((uintptr_t)place % 64, (uintptr_t)mapped % 64);
    if (place != mapped) /* the system's cache of the file holds no page of it */
        assert_int_equal(page_cache_pages(fixture->map, fixture->bytes), 0);
    assert_memory_equal(place, mapped, bytes);
    requests->done(requests->ctx, &wanted);
    return place == mapped;
}

/* Can the file be read without the system's cache, and does its file system do so? */
static bool has_direct_reads(const char *path)
{
    unsigned long requests = 0;
    struct statfs info;
    const bool good = statfs(path, &info) == 0 && (info.f_type == EXT4_SUPER_MAGIC || info.f_type == XFS_SUPER_MAGIC) &&
                      syscall(SYS_io_setup, 1, &requests) == 0;

    if (requests != 0)
        (void)syscall(SYS_io_destroy, requests);
    return good;
}

/* Parts that begin and end within pages; the last one ends the file. There is room for two. */
enum { ODD_PARTS = 5, ODD_BYTES = 100064 };

static uint64_t room_for_one(void *ctx)
{
    (void)ctx;
    return ODD_BYTES;
}

static void parts_are_read_without_the_cache(void **state)
{
    struct fixture fixture = begin(ODD_PARTS * ODD_BYTES);
    const bool direct = has_direct_reads(fixture.path);
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    add_step(&fixture, ODD_PARTS * ODD_BYTES, STREAM_ALL, false);
    assert_true(weight_stream_divide(fixture.stream, fixture.steps, fixture.map, ODD_PARTS * ODD_BYTES, ODD_PARTS));
    assert_int_equal(weight_stream_begin(fixture.stream, ODD_BYTES, room_for_one, NULL), ODD_BYTES);
    assert_int_equal(weight_stream_enter(fixture.stream, fixture.steps[0], &diag), INLAY_OK);
    for (int64_t i = 0; i < 3 * ODD_PARTS; i++) {
        const bool cold = madvise(fixture.map, fixture.bytes, MADV_DONTNEED) == 0 &&
                          page_cache_drop(fixture.path, fixture.map, fixture.bytes);
        const bool mapped = use_place(&fixture, fixture.map, ODD_BYTES, i * 3 % ODD_PARTS);

        assert_true(mapped || cold);
        if (direct)
            assert_false(mapped && cold);
    }
    weight_stream_trim(fixture.stream);
    for (int64_t i = 0; i < ODD_PARTS; i++) /* use_place() has read the mapping */
        if (page_cache_pages(fixture.map + i * ODD_BYTES / (int64_t)page_bytes() * (int64_t)page_bytes(), 1) > 0)
            assert_true(use_place(&fixture, fixture.map, ODD_BYTES, i));
    weight_stream_leave(fixture.stream, fixture.steps[0]);
    end(&fixture);
}

static void a_truncated_file_is_an_error_without_the_cache(void **state)
{
    struct fixture fixture = begin_experts();
    const void *const data[] = { fixture.map };
    const void *place;
    const run_parts *requests = weight_stream_parts(fixture.stream);
    inlay_pack_parts wanted = { .struct_size = sizeof wanted,
                                .data = data,
                                .parts = (int64_t[]){ 7 },
                                .data_count = 1,
                                .part_count = 1,
                                .places = &place };
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t count;

    (void)state;
    assert_int_equal(weight_stream_enter(fixture.stream, fixture.steps[0], &diag), INLAY_OK);
    (void)page_cache_drop(fixture.path, fixture.map, fixture.bytes);
    (void)use_place(&fixture, fixture.map, WEIGHTS, 3); /* the size of the file is known now */
    (void)page_cache_drop(fixture.path, fixture.map, fixture.bytes);
    assert_int_equal(truncate(fixture.path, 4096), 0);
    assert_int_equal(requests->need(requests->ctx, &wanted, &count), INLAY_IO_ERROR);
    weight_stream_leave(fixture.stream, fixture.steps[0]);
    end(&fixture);
}

/* A process that may request reads, but not take the answers, reads the mapping. */
static void answers_may_be_forbidden(void **state)
{
    const pid_t child = fork();
    int status;

    (void)state;
    if (child == 0) {
        struct fixture fixture;
        inlay_diag diag = INLAY_DIAG_INIT;
        bool mapped = true;

        forbid_call(SYS_io_getevents);
        (void)alarm(60);
        fixture = begin(ODD_PARTS * ODD_BYTES);
        add_step(&fixture, ODD_PARTS * ODD_BYTES, STREAM_ALL, false);
        assert_true(weight_stream_divide(fixture.stream, fixture.steps, fixture.map, ODD_PARTS * ODD_BYTES, ODD_PARTS));
        (void)weight_stream_begin(fixture.stream, ODD_BYTES, room_for_one, NULL);
        assert_int_equal(weight_stream_enter(fixture.stream, fixture.steps[0], &diag), INLAY_OK);
        for (int64_t i = 0; i < ODD_PARTS; i++) {
            (void)page_cache_drop(fixture.path, fixture.map, fixture.bytes);
            mapped &= use_place(&fixture, fixture.map, ODD_BYTES, i);
        }
        weight_stream_leave(fixture.stream, fixture.steps[0]);
        end(&fixture);
        _exit(mapped ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        skip();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_stay_if_they_fit),
        cmocka_unit_test(the_choice_is_spread),
        cmocka_unit_test(a_large_step_stays),
        cmocka_unit_test(repeated_weights_stay),
        cmocka_unit_test(sizes_are_counted),
        cmocka_unit_test(a_truncated_file_is_an_error),
        cmocka_unit_test(only_parts_that_are_used_are_read),
        cmocka_unit_test(parts_come_in_groups),
        cmocka_unit_test(bad_parts_are_errors),
        cmocka_unit_test(parts_are_read_without_the_cache),
        cmocka_unit_test(a_truncated_file_is_an_error_without_the_cache),
        cmocka_unit_test(answers_may_be_forbidden),
    };
    cpu_set_t one;

    /* The system cannot give back pages that another CPU has added to the cache and not yet to its lists. */
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    (void)sched_setaffinity(0, sizeof one, &one);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
