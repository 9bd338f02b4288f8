/* The page of / in a browser: Chromium loads it while requests arrive, and the test checks its document and a
 * screenshot. Skipped (exit code 77) if Chromium is not installed. */
#include "client.h"
#include <png.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cmocka_all.h"

enum { CHARTS = 3 };

static struct serving server;
static char document[1 << 18];

static const char twice[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}";

static int start(void **state)
{
    *state = &server;
    serving_open(&server, NULL);
    return 0;
}

/* Starts a process that sends valid and invalid requests until it is killed. */
static pid_t send_requests(void)
{
    pid_t pid = fork();
    struct answer answer;

    if (pid != 0)
        return pid;
    for (uint32_t i = 0;; i++) {
        client_once(&server, "POST", "/v2/models/twice/infer", "", i % 4 == 0 ? "{}" : twice, &answer);
        (void)usleep(2000);
    }
}

/* Shows the page for some seconds of virtual time; the browser writes a screenshot and the document to the folder. */
static void browse(void)
{
    char command[1024], path[256];
    pid_t sender = send_requests();
    FILE *file;
    int code;

    assert_true(sender > 0);
    (void)snprintf(command, sizeof command,
                   "timeout 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir=%s/browser "
                   "--window-size=1000,1400 --virtual-time-budget=8000 --screenshot=%s/page.png --dump-dom "
                   "http://127.0.0.1:%d/ >%s/document 2>%s/browser.log",
                   server.folder, server.folder, server.port, server.folder, server.folder);
    code = system(command);
    (void)kill(sender, SIGKILL);
    (void)waitpid(sender, NULL, 0);
    assert_int_equal(code, 0);
    file = fopen(serving_path(&server, "document", path, sizeof path), "r");
    assert_non_null(file);
    document[fread(document, 1, sizeof document - 1, file)] = '\0';
    (void)fclose(file);
}

/* Returns the number after the text `from`, searched from `at` on. */
static double number_after(const char *at, const char *from)
{
    const char *found = strstr(at, from);

    if (found == NULL)
        fail_msg("there is no '%s' in %s", from, at);
    return strtod(found + strlen(from), NULL);
}

/* Counts the segments of the first path from `at` on; *out_flat: all points have the same height. */
static uint32_t count_lines(const char *at, bool *out_flat)
{
    const char *path = strstr(at, " d=\"M");
    double first = 0;
    uint32_t lines = 0;

    *out_flat = true;
    if (path == NULL)
        fail_msg("no chart is drawn: %s", at);
    for (const char *c = path + 4; *c != '"' && *c != '\0'; c++) {
        char *rest;
        double height;

        if (*c != 'M' && *c != 'L')
            continue;
        (void)strtod(c + 1, &rest);
        height = strtod(rest, NULL);
        assert_true(height >= 0 && height <= 50);
        *out_flat &= *c == 'M' || height == first;
        first = *c == 'M' ? height : first;
        lines += *c == 'L';
    }
    return lines;
}

/* Counts bands of picture rows with the colour of the charts' lines: each chart is one band. */
static uint32_t count_bands(void)
{
    png_image image = { .version = PNG_IMAGE_VERSION };
    uint32_t bands = 0, gap = UINT32_MAX;
    unsigned char *pixels;
    char path[256];

    assert_true(png_image_begin_read_from_file(&image, serving_path(&server, "page.png", path, sizeof path)));
    image.format = PNG_FORMAT_RGB;
    pixels = malloc(PNG_IMAGE_SIZE(image));
    assert_non_null(pixels);
    assert_true(png_image_finish_read(&image, NULL, pixels, 0, NULL));
    for (uint32_t y = 0; y < image.height; y++) {
        uint32_t found = 0;

        for (uint32_t x = 0; x < image.width; x++) {
            const unsigned char *p = pixels + 3 * ((size_t)y * image.width + x);

            found += abs(p[0] - 0x17) < 24 && abs(p[1] - 0x69) < 24 && abs(p[2] - 0xaa) < 24;
        }
        if (found == 0) {
            gap += gap < UINT32_MAX;
            continue;
        }
        bands += gap > 20;
        gap = 0;
    }
    free(pixels);
    return bands;
}

static void test_charts(void **state)
{
    static const char *const titles[CHARTS] = { "Results a second: ", "Mean milliseconds of a result: ",
                                                "Errors a second: " };
    const char *row;

    (void)state;
    browse();
    assert_non_null(strstr(document, ", ready</small>"));
    assert_non_null(strstr(document, "<p id=\"wrong\" role=\"alert\"></p>"));
    row = strstr(document, "<td>twice</td><td>1</td><td>READY</td>");
    assert_non_null(row);
    assert_true(number_after(row, "READY</td><td>") > 0);
    for (uint32_t i = 0; i < CHARTS; i++) {
        const char *at = strstr(document, titles[i]);
        bool flat;

        if (at == NULL)
            fail_msg("there is no chart '%s'", titles[i]);
        assert_true(number_after(at, "at most ") > 0);
        assert_true(count_lines(at, &flat) >= 2);
        assert_false(flat);
    }
    assert_int_equal(count_bands(), CHARTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_charts) };

    if (system("command -v chromium >/dev/null") != 0) {
        (void)puts("skipped: chromium is not installed");
        return 77;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, serving_tear_down);
}
