/* Runs a fuzz target on files and folders, and on every file with each of its bytes changed. Replaces libFuzzer's
 * main() with arguments, for compilers without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_BYTES = 1 << 20 };

static int run_file(const char *path)
{
    uint8_t *bytes = malloc(MAX_BYTES), *copy;
    FILE *file = fopen(path, "rb");
    size_t n;

    if (bytes == NULL || file == NULL) {
        (void)fprintf(stderr, "%s: cannot be read\n", path);
        free(bytes);
        return -1;
    }
    n = fread(bytes, 1, MAX_BYTES, file);
    (void)fclose(file);
    copy = malloc(n == 0 ? 1 : n); /* of exact size, so that a sanitizer detects reads past the end */
    if (copy == NULL) {
        free(bytes);
        return -1;
    }
    memcpy(copy, bytes, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    for (size_t i = 0; i < n && n < 4096; i++) {
        for (unsigned change = 0; change < 4; change++) {
            copy[i] = (uint8_t)(change < 3 ? copy[i] ^ (uint8_t)(1u << (i + 3 * change) % 8) : 0xff);
            (void)LLVMFuzzerTestOneInput(copy, n);
            copy[i] = bytes[i];
        }
    }
    free(copy);
    free(bytes);
    return 0;
}

static int run_folder(DIR *dir, const char *path, int *count)
{
    struct dirent *entry;
    char name[4096];

    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (run_file(name) != 0)
            return -1;
        ++*count;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int count = 0, status = 0;

    for (int i = 1; i < argc && status == 0; i++) {
        DIR *dir = opendir(argv[i]);

        if (dir != NULL) {
            status = run_folder(dir, argv[i], &count);
            (void)closedir(dir);
        } else {
            status = run_file(argv[i]);
            count++;
        }
    }
    (void)printf("%d files\n", count);
    return status == 0 && count > 0 ? 0 : 1;
}
