/* Any bytes as a form: a value of Content-Type, a line end, the body. Parts are in the body, in order, and none has the
 * boundary. */
#include "codecs/multipart.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition)
{
    if (!condition)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct multipart form;
    const uint8_t *line = bytes > 0 ? memchr(data, '\n', bytes) : NULL;
    const size_t type_bytes = line != NULL ? (size_t)(line - data) : 0, count = bytes - type_bytes - 1;
    char boundary[MULTIPART_BOUNDARY + 1], *type, *body;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (line == NULL)
        return 0;
    type = malloc(type_bytes + 1); /* of exact size, so that a sanitizer detects reads past the end */
    body = malloc(count > 0 ? count : 1);
    if (type == NULL || body == NULL) {
        free(type);
        free(body);
        return 0;
    }
    memcpy(type, data, type_bytes);
    type[type_bytes] = '\0';
    memcpy(body, line + 1, count);
    if (multipart_boundary(type, boundary)) {
        require(boundary[0] != '\0' && strlen(boundary) <= MULTIPART_BOUNDARY);
        if (multipart_read(body, count, boundary, &form, &diag) == INLAY_OK) {
            const char *at = body;

            require(form.count <= MULTIPART_PARTS);
            for (size_t i = 0; i < form.count; i++) {
                const multipart_part *part = &form.parts[i];

                require(part->data >= at && part->bytes <= (size_t)(body + count - part->data));
                require(part->name[0] != '\0' && strlen(part->name) < MULTIPART_NAME);
                at = part->data + part->bytes;
            }
        } else {
            require(diag.text[0] != '\0');
        }
    }
    free(type);
    free(body);
    return 0;
}
