/* Any bytes as the body of a call over gRPC, which is messages with a prefix each: they are taken, or the call ends
 * with a status. The first byte says which method, the second in how large pieces the bytes arrive. */
#include "grpc_fake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void take(void *user, const uint8_t *data, size_t bytes)
{
    fake_client *client = user;

    if (nghttp2_session_mem_recv(client->session, data, bytes) != (ssize_t)bytes)
        __builtin_trap(); /* the server does not speak HTTP/2 */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static fake_link link;
    fake_client client;
    const uint8_t *out;
    ssize_t n;

    if (bytes < 2 || !fake_open(&link))
        return 0;
    if (fake_client_open(&client, data, bytes)) {
        fake_send(&link, take, &client);
        while ((n = nghttp2_session_mem_send(client.session, &out)) > 0) {
            if (!fake_receive(&link, out, (size_t)n))
                __builtin_trap(); /* the client is a good one */
            fake_send(&link, take, &client);
        }
        if (!client.has_status)
            __builtin_trap(); /* a call without an answer */
    }
    nghttp2_session_del(client.session);
    fake_close(&link);
    return 0;
}
