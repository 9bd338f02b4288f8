/* .npz archives: those of numpy's format are read; truncated, changed or inconsistent archives are errors. */
#include "archive.h"
#include "data/zip.h"
#include "cmocka_all.h"

static FILE *file_of(const struct buffer *buffer)
{
    FILE *file = tmpfile();

    assert_non_null(file);
    assert_int_equal(fwrite(buffer->data, 1, buffer->bytes, file), buffer->bytes);
    rewind(file);
    return file;
}

static struct buffer some_array(void)
{
    float data[600];

    for (int i = 0; i < 600; i++)
        data[i] = (float)(i % 7);
    return npy_of("600,", data, 600);
}

/* Reads the archive and its entry; returns the first error. */
static inlay_status unpack(const struct buffer *buffer, struct buffer *out)
{
    FILE *file = file_of(buffer), *entry = NULL;
    struct arena arena = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    zip_list list;
    inlay_status status = zip_read(file, "x.npz", &arena, &list, &diag);

    *out = (struct buffer){ 0 };
    if (status == INLAY_OK && list.count == 1)
        status = zip_extract(file, "x.npz", &list.entries[0], &entry, &diag);
    if (status != INLAY_OK)
        assert_string_not_equal(diag.text, "");
    for (int c; entry != NULL && (c = fgetc(entry)) != EOF;)
        buffer_number(out, (uint64_t)c, 1);
    if (entry != NULL)
        assert_int_equal(fclose(entry), 0);
    assert_int_equal(fclose(file), 0);
    arena_deinit(&arena);
    return status;
}

static void reads_both(void **state)
{
    struct buffer plain = some_array();

    (void)state;
    for (int deflate_it = 0; deflate_it < 2; deflate_it++) {
        struct buffer zip = zip_of("x.npy", &plain, deflate_it), out;

        assert_int_equal(unpack(&zip, &out), INLAY_OK);
        assert_int_equal(out.bytes, plain.bytes);
        assert_memory_equal(out.data, plain.data, plain.bytes);
        free(out.data);
        free(zip.data);
    }
    free(plain.data);
}

/* Every prefix is rejected, and every changed byte is either harmless or detected. */
static void damaged_archives(void **state)
{
    struct buffer plain = some_array();

    (void)state;
    for (int deflate_it = 0; deflate_it < 2; deflate_it++) {
        struct buffer zip = zip_of("x.npy", &plain, deflate_it), out;
        const size_t bytes = zip.bytes;

        for (zip.bytes = 0; zip.bytes < bytes; zip.bytes += 13) {
            assert_int_equal(unpack(&zip, &out), INLAY_IO_ERROR);
            free(out.data);
        }
        zip.bytes = bytes;
        for (size_t at = 0; at < bytes; at += 3) {
            zip.data[at] ^= 0x55;
            if (unpack(&zip, &out) == INLAY_OK && out.bytes > 0)
                assert_memory_equal(out.data, plain.data, plain.bytes);
            free(out.data);
            zip.data[at] ^= 0x55;
        }
        free(zip.data);
    }
    free(plain.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(reads_both), cmocka_unit_test(damaged_archives) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
