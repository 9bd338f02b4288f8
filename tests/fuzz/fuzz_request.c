/* Any bytes as the body of an inference request over REST: it is accepted, or refused with one line. The first two
 * bytes are the length of the JSON part. */
#include "codecs/datatype.h"
#include "serve/request/infer.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Reads every byte of every element, so that a sanitizer detects invalid pointers. */
static void touch(const infer_request *request)
{
    volatile unsigned char sum = 0;

    for (uint32_t i = 0; i < request->input_count; i++) {
        const infer_tensor *tensor = &request->inputs[i];

        if (tensor->region.name != NULL) { /* nothing reads the shared memory */
            sum = (unsigned char)(sum + strlen(tensor->region.name));
            continue;
        }
        for (uint64_t k = 0; k < tensor->bytes; k++)
            sum = (unsigned char)(sum + ((const unsigned char *)tensor->data)[k]);
        for (uint64_t k = 0; tensor->dtype == INLAY_STRING && k < tensor->count; k++)
            for (uint64_t c = 0; c < ((const inlay_str *)tensor->data)[k].bytes; c++)
                sum = (unsigned char)(sum + (unsigned char)((const inlay_str *)tensor->data)[k].data[c]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    infer_request request;
    size_t json_bytes;
    char *body;

    if (bytes < 2)
        return 0;
    json_bytes = data[0] | (size_t)data[1] << 8;
    body = malloc(bytes - 2 + (bytes == 2)); /* of exact size, so that a sanitizer detects reads past the end */
    if (body == NULL)
        return 0;
    memcpy(body, data + 2, bytes - 2);
    if (infer_parse_rest(body, bytes - 2, json_bytes < 0xffff ? json_bytes : bytes - 2, &request, &diag) == INLAY_OK)
        touch(&request);
    else if (diag.text[0] == '\0' || strchr(diag.text, '\n') != NULL || request.inputs != NULL)
        __builtin_trap(); /* a failure without a message, or with allocated inputs */
    infer_request_deinit(&request);
    free(body);
    return 0;
}
