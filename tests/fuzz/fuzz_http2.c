/* Any bytes as the output of a gRPC client, from the HTTP/2 preface on: every call must end. The first byte is the
 * number of bytes that arrive at once, 0 for 65536. */
#include "grpc_fake.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static fake_link link;
    size_t step = bytes > 0 && data[0] != 0 ? data[0] : 65536;
    bool good = true;

    if (bytes == 0 || !fake_open(&link))
        return 0;
    fake_send(&link, NULL, NULL);
    for (size_t at = 1, n; good && at < bytes; at += n) {
        uint8_t *part; /* of exact size, so that a sanitizer detects reads past the end */

        n = bytes - at < step ? bytes - at : step;
        part = malloc(n);
        if (part == NULL)
            break;
        memcpy(part, data + at, n);
        good = fake_receive(&link, part, n);
        free(part);
        fake_send(&link, NULL, NULL);
    }
    fake_close(&link);
    return 0;
}
