/* Tests of base/: among.h, memory.h, arena.h, output.h, sha256.h, strbuf.h, utf8.h, spawn.h. */
#include "base/among.h"
#include "base/arena.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/sha256.h"
#include "base/spawn.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "cmocka_all.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MANY = 1000 };

static void lists_keep_their_items(void **state)
{
    uint32_t *list = NULL, *in_arena = NULL;
    struct arena arena = { 0 };

    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(LIST_GROW(list, i));
        assert_true(ARENA_GROW(&arena, in_arena, i));
        list[i] = in_arena[i] = i;
    }
    assert_true(list_reserve(&list, MANY, 3 * MANY, sizeof *list));
    memset(list + MANY, 0xff, 3 * MANY * sizeof *list);
    for (uint32_t i = 0; i < MANY; i++)
        assert_true(list[i] == i && in_arena[i] == i);
    free(list);
    arena_deinit(&arena);
}

static void lists_grow_seldom(void **state)
{
    (void)state;
    assert_int_equal(list_room(0), 0);
    assert_int_equal(list_room(1), 4);
    assert_int_equal(list_room(4), 4);
    assert_int_equal(list_room(5), 8);
    assert_true(list_room(SIZE_MAX) == SIZE_MAX);
}

static void lists_refuse_overflow(void **state)
{
    char *list = malloc(4);
    char *const before = list;
    struct arena arena = { 0 };

    (void)state;
    assert_false(list_reserve(&list, 2, SIZE_MAX, 1));
    assert_false(list_reserve(&list, 2, SIZE_MAX / 2, 4));
    assert_false(arena_reserve(&arena, &list, 2, SIZE_MAX, 1));
    assert_false(arena_reserve(&arena, &list, 2, SIZE_MAX / 2, 4));
    assert_ptr_equal(list, before);
    free(list);
    arena_deinit(&arena);
}

static void words_are_whole(void **state)
{
    static const char words[] = "MatMul Mul Add";

    (void)state;
    assert_true(is_among("MatMul", words) && is_among("Mul", words) && is_among("Add", words));
    assert_false(is_among("Mat", words) || is_among("ul", words) || is_among("Ad", words) || is_among("", words));
    assert_false(is_among("Mul Add", words) || is_among(" ", words) || is_among("Add", ""));
}

static void no_memory_names_the_purpose(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(no_memory(&diag, "for %d cats", 3), INLAY_OUT_OF_MEMORY);
    assert_string_equal(diag.text, "no memory for 3 cats");
    assert_int_equal(diag.error_class, INLAY_CLASS_MEMORY);
    assert_int_equal(no_memory(NULL, "at all"), INLAY_OUT_OF_MEMORY);
}

static void texts_are_appended(void **state)
{
    static const char expected[] = "x=7 -12 18446744073709551615 \"a\\\"\\u0001\\ufffd\xc3\xa9\"";
    struct strbuf strbuf = { 0 };

    (void)state;
    strbuf_format(&strbuf, "x=%d ", 7);
    strbuf_int(&strbuf, -12);
    strbuf_write(&strbuf, " ", 1);
    strbuf_uint(&strbuf, UINT64_MAX);
    strbuf_text(&strbuf, " ");
    strbuf_json(&strbuf, "a\"\x01\xff\xc3\xa9", 6);
    assert_false(strbuf.failed);
    assert_int_equal(strbuf.size, sizeof expected - 1);
    assert_memory_equal(strbuf.data, expected, strbuf.size);
    assert_null(strbuf_reserve(&strbuf, SIZE_MAX / 2));
    assert_true(strbuf.failed);
    strbuf_deinit(&strbuf);
}

/* Texts of all lengths around the room that the buffer has. */
static void formats_of_any_length(void **state)
{
    enum { LONGEST = 600 };
    static char text[LONGEST + 1], expected[2 * LONGEST + 16];

    (void)state;
    memset(text, 'x', LONGEST);
    for (uint32_t before = 0; before < LONGEST; before += 7) {
        for (uint32_t length = 0; length <= LONGEST; length += length < 100 ? 9 : 1) {
            struct strbuf strbuf = { 0 };
            int bytes = snprintf(expected, sizeof expected, "%0*d|%.*s|%d", (int)before, 0, (int)length, text, 5);

            strbuf_format(&strbuf, "%0*d", (int)before, 0);
            strbuf_format(&strbuf, "|%.*s|%d", (int)length, text, 5);
            assert_false(strbuf.failed);
            assert_int_equal(strbuf.size, bytes);
            assert_memory_equal(strbuf.data, expected, strbuf.size);
            strbuf_deinit(&strbuf);
        }
    }
}

static void characters_round_trip(void **state)
{
    char text[4];
    uint32_t back;

    (void)state;
    for (uint32_t point = 0; point < 0x110000; point++) {
        const bool is_one = point < 0xd800 || point > 0xdfff;
        const size_t bytes = utf8_put(text, point);

        assert_int_equal(bytes, !is_one ? 0 : point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4);
        if (!is_one)
            continue;
        assert_int_equal(utf8_get(text, bytes, &back), bytes);
        assert_int_equal(back, point);
        assert_int_equal(utf8_get(text, bytes - 1, &back), 0);
    }
    assert_int_equal(utf8_put(text, 0x110000), 0);
}

static void invalid_utf8_is_refused(void **state)
{
    static const char *const bad[] = { "\x80",         "\xc0\x80",         "\xc1\xbf",         "\xe0\x9f\xbf",
                                       "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                                       "\xc3(" };
    uint32_t point;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(utf8_get(bad[i], strlen(bad[i]), &point), 0);
        assert_false(utf8_is_valid(bad[i], strlen(bad[i])));
    }
    assert_true(utf8_is_valid("twelve ASCII \xe2\x82\xac", 16));
}

static bool always(void)
{
    return true;
}

static int run(const char *line, int output, double seconds, bool (*cancelled)(void))
{
    const char *const argv[] = { "sh", "-c", line, NULL };
    const spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { output, STDOUT_FILENO } };
    pid_t child;

    assert_int_equal(spawn_start(&(spawn_args){ argv, fds, 2, true, false, NULL }, &child), 0);
    return spawn_wait(child, seconds, cancelled);
}

/* The message contains the error of the first failed write, although later writes would succeed. */
static void output_errors_have_reasons(void **state)
{
    static char bytes[1 << 16];
    char path[] = "/tmp/inlay_base_XXXXXX";
    struct rlimit before, small;
    output_file out;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_non_null(mkdtemp(path));
    assert_int_equal(chdir(path), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){ .rlim_cur = 4096, .rlim_max = before.rlim_max };
    assert_int_equal(output_open_stream(&out, "file", &diag), INLAY_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    (void)fwrite(bytes, 1, sizeof bytes, out.to);
    (void)fflush(out.to);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(output_commit(&out, NULL, &diag), INLAY_IO_ERROR);
    assert_string_equal(diag.text, "file: cannot be written: File too large");
    assert_int_not_equal(access("file", F_OK), 0);
    assert_int_equal(output_open_stream(&out, "file", &diag), INLAY_OK);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, out.to), sizeof bytes);
    assert_int_equal(output_commit(&out, NULL, &diag), INLAY_OK);
    assert_int_equal(unlink("file"), 0);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(path), 0);
}

static void programs_run_and_end(void **state)
{
    const char *const missing[] = { "a-program-that-is-nowhere", NULL };
    char text[8] = "";
    int ends[2];
    pid_t child;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(run("read line; echo \"<$line>\"; exit 3", ends[1], 0, NULL), 3);
    assert_int_equal(read(ends[0], text, sizeof text - 1), 3);
    assert_string_equal(text, "<>\n");
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_int_equal(run("kill -TERM $$", SPAWN_NULL, 0, NULL), 128 + 15);
    assert_int_not_equal(spawn_start(&(spawn_args){ .argv = missing }, &child), 0);
}

static void programs_are_killed(void **state)
{
    (void)state;
    assert_int_equal(run("sleep 1000 & wait", SPAWN_NULL, 0.01, NULL), SPAWN_TIMED_OUT);
    assert_int_equal(run("sleep 1000 & wait", SPAWN_NULL, 0, always), 128 + 9);
}

/* FIPS 180-4's examples; pieces of any size; the instructions of the CPU and the code in C. */
static void hashes_are_those_of_the_standard(void **state)
{
    static const struct {
        const char *text;
        uint32_t times;
        const char *hash;
    } rows[] = {
        { "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
    };
    enum { BLOCKS = 9 };
    uint8_t data[64 * BLOCKS];
    struct sha256 whole, parts;
    char hash[65], other[65];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sha256_init(&whole);
        for (uint32_t k = 0; k < rows[i].times; k++)
            sha256_update(&whole, rows[i].text, strlen(rows[i].text));
        sha256_hex(&whole, hash);
        assert_string_equal(hash, rows[i].hash);
    }
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * i * 31 + i / 7);
    for (size_t count = 0; count <= BLOCKS; count++) {
        uint32_t by_cpu[8], plain[8];

        sha256_init(&whole);
        memcpy(by_cpu, whole.state, sizeof by_cpu);
        memcpy(plain, whole.state, sizeof plain);
        sha256_blocks(by_cpu, data, count);
        sha256_blocks_plain(plain, data, count);
        assert_memory_equal(by_cpu, plain, sizeof plain);
    }
    for (size_t piece = 1; piece < sizeof data; piece++) {
        sha256_init(&whole);
        sha256_update(&whole, data, sizeof data);
        sha256_hex(&whole, hash);
        sha256_init(&parts);
        for (size_t at = 0; at < sizeof data; at += piece)
            sha256_update(&parts, data + at, at + piece < sizeof data ? piece : sizeof data - at);
        sha256_hex(&parts, other);
        assert_string_equal(hash, other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_keep_their_items),
        cmocka_unit_test(lists_grow_seldom),
        cmocka_unit_test(lists_refuse_overflow),
        cmocka_unit_test(no_memory_names_the_purpose),
        cmocka_unit_test(texts_are_appended),
        cmocka_unit_test(formats_of_any_length),
        cmocka_unit_test(characters_round_trip),
        cmocka_unit_test(invalid_utf8_is_refused),
        cmocka_unit_test(programs_run_and_end),
        cmocka_unit_test(programs_are_killed),
        cmocka_unit_test(hashes_are_those_of_the_standard),
        cmocka_unit_test(words_are_whole),
        cmocka_unit_test(output_errors_have_reasons),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
