/* .npy files: files of numpy are read, written files can be read again, invalid files are rejected with a message. */
#include "data/npy.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

static char path[] = "/tmp/inlay-npy-XXXXXX";

/* Writes a file of version major with this header text and data. */
static void write_file(int major, const char *header, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    size_t n = strlen(header);

    assert_non_null(file);
    (void)fwrite("\x93NUMPY", 1, 6, file);
    (void)fputc(major, file);
    (void)fputc(0, file);
    (void)fputc((int)(n & 0xff), file);
    (void)fputc((int)(n >> 8 & 0xff), file);
    if (major > 1) {
        (void)fputc(0, file);
        (void)fputc(0, file);
    }
    (void)fwrite(header, 1, n, file);
    (void)fwrite(data, 1, bytes, file);
    (void)fclose(file);
}

static const int16_t six[] = { 1, 2, 3, 4, 5, 6 };

static void versions_and_spellings(void **state)
{
    static const struct {
        int major;
        const char *header;
    } rows[] = {
        { 1, "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }         \n" },
        { 2, "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }\n" },
        { 3, "{'shape': (2, 3), 'fortran_order': False, 'descr': '<i2'}\n" },
        { 1, "{\"descr\":\"<i2\",\"fortran_order\":False,\"shape\":(2L,3L,)}" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct arena arena = { 0 };
        inlay_tensor_view view;
        inlay_diag diag = INLAY_DIAG_INIT;

        write_file(rows[i].major, rows[i].header, six, sizeof six);
        assert_int_equal(npy_load(path, INLAY_UNDEFINED, &arena, &view, &diag), INLAY_OK);
        assert_int_equal(view.dtype, INLAY_INT16);
        assert_int_equal(view.rank, 2);
        assert_int_equal(view.dims[0], 2);
        assert_int_equal(view.dims[1], 3);
        assert_int_equal(view.bytes, sizeof six);
        assert_memory_equal(view.data, six, sizeof six);
        arena_deinit(&arena);
    }
}

static void fortran_and_big_endian(void **state)
{
    static const int16_t columns[] = { 1, 4, 2, 5, 3, 6 };
    static const unsigned char big[] = { 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6 };
    struct arena arena = { 0 };
    inlay_tensor_view view;

    (void)state;
    write_file(1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3)}", columns, sizeof columns);
    assert_int_equal(npy_load(path, INLAY_UNDEFINED, &arena, &view, NULL), INLAY_OK);
    assert_memory_equal(view.data, six, sizeof six);
    write_file(1, "{'descr': '>i2', 'fortran_order': False, 'shape': (2, 3)}", big, sizeof big);
    assert_int_equal(npy_load(path, INLAY_UNDEFINED, &arena, &view, NULL), INLAY_OK);
    assert_memory_equal(view.data, six, sizeof six);
    arena_deinit(&arena);
}

static void strings(void **state)
{
    static const uint32_t utf32[] = { 'a', 0, 0xfc, 0x1f600, 0, 0, 'b', 'c' };
    static const inlay_str odd[] = { { "\xff\xfe", 2 }, { "plain", 5 } };
    const int64_t dims[] = { 2 };
    struct arena arena = { 0 };
    inlay_tensor_view view;
    const inlay_str *string;

    (void)state;
    write_file(1, "{'descr': '<U2', 'fortran_order': False, 'shape': (4,)}", utf32, sizeof utf32);
    assert_int_equal(npy_load(path, INLAY_UNDEFINED, &arena, &view, NULL), INLAY_OK);
    assert_int_equal(view.dtype, INLAY_STRING);
    string = view.data;
    assert_int_equal(string[0].bytes, 1);
    assert_int_equal(string[1].bytes, 6);
    assert_memory_equal(string[1].data, "\xc3\xbc\xf0\x9f\x98\x80", 6);
    assert_int_equal(string[2].bytes, 0);
    /* Data that was read can be written and read again; strings that are not UTF-8 are written as bytes. */
    assert_int_equal(npy_save(path, &view, NULL), INLAY_OK);
    assert_int_equal(npy_load(path, INLAY_UNDEFINED, &arena, &view, NULL), INLAY_OK);
    string = view.data;
    assert_memory_equal(string[1].data, "\xc3\xbc\xf0\x9f\x98\x80", 6);
    view = (inlay_tensor_view){ .data = odd, .bytes = sizeof odd, .dims = dims, .rank = 1, .dtype = INLAY_STRING };
    assert_int_equal(npy_save(path, &view, NULL), INLAY_OK);
    assert_int_equal(npy_load(path, INLAY_UNDEFINED, &arena, &view, NULL), INLAY_OK);
    string = view.data;
    assert_int_equal(string[0].bytes, 2);
    assert_memory_equal(string[0].data, "\xff\xfe", 2);
    assert_int_equal(string[1].bytes, 5);
    arena_deinit(&arena);
}

/* Every type can be written and read again at several ranks, if the caller requests the type. */
static void round_trip(void **state)
{
    static const int64_t dims[] = { 3, 1, 5 };
    unsigned char data[15 * 16];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 + 11);
    for (inlay_dtype type = 1; type < INLAY_DTYPE_COUNT; type++) {
        for (uint32_t rank = 0; rank <= 3 && type != INLAY_STRING; rank++) {
            int64_t count = rank == 0 ? 1 : rank == 3 ? 15 : 3;
            inlay_tensor_view out = { .data = data, .dims = dims, .rank = rank, .dtype = type };
            inlay_tensor_view in;
            inlay_diag diag = INLAY_DIAG_INIT;
            struct arena arena = { 0 };
            unsigned char bools[16];

            out.bytes = ((uint64_t)count * inlay_dtype_bits(type) + 7) / 8;
            if (type == INLAY_BOOL) {
                for (size_t i = 0; i < sizeof bools; i++)
                    bools[i] = i % 3 == 0;
                out.data = bools;
            }
            assert_int_equal(npy_save(path, &out, &diag), INLAY_OK);
            assert_int_equal(npy_load(path, type, &arena, &in, &diag), INLAY_OK);
            assert_int_equal(in.dtype, type);
            assert_int_equal(in.rank, rank);
            assert_int_equal(in.bytes, out.bytes);
            /* The last byte of packed types may have unused bits. */
            assert_memory_equal(in.data, out.data, (uint64_t)count * inlay_dtype_bits(type) / 8);
            assert_true(npy_note(type) == NULL || inlay_dtype_bits(type) <= 16);
            arena_deinit(&arena);
        }
    }
}

static void zero_sizes(void **state)
{
    static const int64_t dims[] = { 0, 7 };
    inlay_tensor_view view = { .data = "", .dims = dims, .rank = 2, .dtype = INLAY_FLOAT };
    struct arena arena = { 0 };

    (void)state;
    assert_int_equal(npy_save(path, &view, NULL), INLAY_OK);
    assert_int_equal(npy_load(path, INLAY_UNDEFINED, &arena, &view, NULL), INLAY_OK);
    assert_int_equal(view.bytes, 0);
    assert_int_equal(view.dims[1], 7);
    arena_deinit(&arena);
}

static void wrong_files(void **state)
{
    static const struct {
        int major;
        const char *header;
        inlay_status status;
        const char *part; /* of the message */
    } rows[] = {
        { 1, "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 4)}", INLAY_IO_ERROR, "needs more" },
        { 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (4611686018427387904, 8)}", INLAY_IO_ERROR, "more" },
        { 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775808,)}", INLAY_IO_ERROR, "sizes" },
        { 1, "{'descr': '<i2', 'fortran_order': False, 'shape': (-1,)}", INLAY_IO_ERROR, "sizes" },
        { 1, "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3}", INLAY_IO_ERROR, "expected" },
        { 1, "{'descr': '<i2', 'fortran_order': False, 'shape': 6}", INLAY_IO_ERROR, "tuple" },
        { 1, "{'descr': '<i2', 'fortran_order': Maybe, 'shape': (6,)}", INLAY_IO_ERROR, "True or False" },
        { 1, "{'descr': '<i2', 'shape': (6,)}", INLAY_IO_ERROR, "keys" },
        { 1, "{'descr': '<i2', 'fortran_order': False, 'shape': (6,), 'x': 1}", INLAY_IO_ERROR, "keys" },
        { 1, "{'descr': '|O', 'fortran_order': False, 'shape': (6,)}", INLAY_IO_ERROR, "Python objects" },
        { 1, "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (6,)}", INLAY_IO_ERROR, "cannot be read" },
        { 1, "{'descr': [('a', '<i2')], 'fortran_order': False, 'shape': (6,)}", INLAY_IO_ERROR, "structured" },
        { 1, "{'descr': '<f3', 'fortran_order': False, 'shape': (1,)}", INLAY_IO_ERROR, "does not have numpy's type" },
        { 1, "{'descr': '<i2', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,6)}",
          INLAY_LIMIT_EXCEEDED, "dimensions" },
        { 1, "{'descr': '<U0', 'fortran_order': False, 'shape': (99999999999,)}", INLAY_IO_ERROR, "" },
        { 1, "{'descr': '<U1', 'fortran_order': False, 'shape': (3,)}", INLAY_IO_ERROR, "not a character" },
        { 4, "{}", INLAY_IO_ERROR, "version" },
        { 1, "", INLAY_IO_ERROR, "expected '{'" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct arena arena = { 0 };
        inlay_tensor_view view;
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;

        write_file(rows[i].major, rows[i].header, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
        status = npy_load(path, INLAY_UNDEFINED, &arena, &view, &diag);
        if (status == INLAY_OK || strstr(diag.text, rows[i].part) == NULL)
            print_error("row %zu: %d %s\n", i, status, diag.text);
        assert_true(status == rows[i].status || (status != INLAY_OK && rows[i].part[0] == '\0'));
        assert_non_null(strstr(diag.text, rows[i].part));
        assert_non_null(strstr(diag.text, path));
        assert_null(strchr(diag.text, '\n'));
        arena_deinit(&arena);
    }
}

/* A truncated file is an error at every length. */
static void truncated(void **state)
{
    static const char header[] = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }\n";
    size_t whole = 10 + sizeof header - 1 + sizeof six;

    (void)state;
    for (size_t n = 0; n < whole; n++) {
        struct arena arena = { 0 };
        inlay_tensor_view view;

        write_file(1, header, six, sizeof six);
        assert_int_equal(truncate(path, (off_t)n), 0);
        assert_int_not_equal(npy_load(path, INLAY_UNDEFINED, &arena, &view, NULL), INLAY_OK);
        arena_deinit(&arena);
    }
}

static void no_file(void **state)
{
    struct arena arena = { 0 };
    inlay_tensor_view view;

    (void)state;
    assert_int_equal(npy_load("/no/such/file.npy", INLAY_UNDEFINED, &arena, &view, NULL), INLAY_IO_ERROR);
    assert_int_equal(npy_load("/tmp", INLAY_UNDEFINED, &arena, &view, NULL), INLAY_IO_ERROR);
    view = (inlay_tensor_view){ .data = six, .bytes = 2, .dtype = INLAY_INT16 };
    assert_int_equal(npy_save("/no/such/dir/file.npy", &view, NULL), INLAY_IO_ERROR);
    arena_deinit(&arena);
}

/* Opening succeeds and writing fails, as on a full disk. */
static void full_disk(void **state)
{
    const inlay_tensor_view view = { .data = six, .bytes = sizeof six, .dtype = INLAY_INT16 };
    struct rlimit before, none;
    char full[sizeof path + 5];
    inlay_status status;

    (void)state;
    (void)snprintf(full, sizeof full, "%s.full", path);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){ .rlim_cur = 8, .rlim_max = before.rlim_max };
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    status = npy_save(full, &view, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)remove(full);
    assert_int_equal(status, INLAY_IO_ERROR);
}

static int make_file(void **state)
{
    int fd = mkstemp(path);
    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_and_spellings),
        cmocka_unit_test(fortran_and_big_endian),
        cmocka_unit_test(strings),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(zero_sizes),
        cmocka_unit_test(wrong_files),
        cmocka_unit_test(truncated),
        cmocka_unit_test(no_file),
        cmocka_unit_test(full_disk),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
