#include "framing_cases.h"
#include <stdlib.h>
#include <string.h>

#define LIVE "GET /v2/health/live HTTP/1.1\r\nHost: a\r\n"
#define INDEX "POST /v2/repository/index HTTP/1.1\r\nHost: a\r\n"
#define TARGET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"
#define CHUNKED INDEX "Transfer-Encoding: chunked\r\n\r\n"
#define DATA "e\r\n" FRAMING_BODY "\r\n"
#define END "0\r\n\r\n"
#define TEN "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define LARGE "\1" /* framing_text() replaces it */
#define TEN_LINES "a:\r\nb:\r\nc:\r\nd:\r\ne:\r\nf:\r\ng:\r\nh:\r\ni:\r\nj:\r\n"
#define HUNDRED_LINES                                                                                                  \
    TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES

#define ROW(name, text, parser, answer, keeps)                                                                         \
    {                                                                                                                  \
        name, text, sizeof(text) - 1, parser, answer, keeps                                                            \
    }
#define GOOD(name, text) ROW(name, text, FRAMING_ACCEPTED, 200, true)
#define LAST(name, text) ROW(name, text, FRAMING_ACCEPTED, 200, false)
#define CODE(name, text, code) ROW(name, text, FRAMING_ACCEPTED, code, true)
#define STATUS(name, text, code) ROW(name, text, code, code, false)
#define BAD(name, text) STATUS(name, text, 400)
#define MORE(name, text) ROW(name, text, FRAMING_INCOMPLETE, 0, false)

const framing_case framing_cases[] = {
    /* Request line: RFC 9112, section 3. */
    GOOD("plain", LIVE "\r\n"),
    GOOD("an empty line before", "\r\n" LIVE "\r\n"),
    BAD("a bare LF before", "\n" LIVE "\r\n"),
    BAD("a blank before", " " LIVE "\r\n"),
    BAD("two blanks after the method", "GET  /v2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("two blanks before the version", "GET /v2  HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("a blank after the version", "GET /v2 HTTP/1.1 \r\nHost: a\r\n\r\n"),
    BAD("a tab for a blank", "GET\t/v2\tHTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("a form feed for a blank", "GET\f/v2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("a method that is no token", "G(ET /v2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    CODE("a method in lower case", "get /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    CODE("an unknown method", "BREW /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    CODE("a method of 100 characters", HUNDRED " /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    CODE("a method for other resources", "DELETE /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    BAD("HTTP/0.9", "GET /v2/health/live\r\n"),
    LAST("HTTP/1.0", "GET /v2/health/live HTTP/1.0\r\n\r\n"),
    GOOD("HTTP/1.0 with keep-alive", "GET /v2/health/live HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"),
    GOOD("HTTP/1.2", "GET /v2/health/live HTTP/1.2\r\nHost: a\r\n\r\n"),
    BAD("a version in lower case", "GET /v2 http/1.1\r\nHost: a\r\n\r\n"),
    BAD("HTTP/1.10", "GET /v2 HTTP/1.10\r\nHost: a\r\n\r\n"),
    BAD("HTTP/1", "GET /v2 HTTP/1\r\nHost: a\r\n\r\n"),
    BAD("another protocol", "GET /v2 RTSP/1.0\r\nHost: a\r\n\r\n"),
    STATUS("HTTP/2.0", "GET /v2 HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    STATUS("HTTP/9.9", "GET /v2 HTTP/9.9\r\nHost: a\r\n\r\n", 505),
    STATUS("a wrong HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", 505),
    MORE("a partial request line", "GET /v2/hea"),
    MORE("a partial header", LIVE "Content-Le"),
    STATUS("a request line of 20000 bytes", "GET /" LARGE " HTTP/1.1\r\nHost: a\r\n\r\n", 414),
    BAD("a TLS hello", "\x16\x03\x03\x02\x00\x02\x00\x02\xfc\x03\x03"),
    /* Targets: section 3.2. */
    GOOD("a query", TARGET("/v2/health/live?a=b&c=%20/?d")),
    GOOD("encoded letters", TARGET("/v2/health/l%69ve")),
    BAD("%00", TARGET("/v2/health/live%00")),
    BAD("%00 in the query", TARGET("/v2/health/live?a=%00")),
    CODE("%2F", TARGET("/v2%2Fhealth%2flive"), 404),
    CODE("%2e%2e", TARGET("/v2/x/%2e%2e/health/live"), 404),
    BAD("% without digits", TARGET("/v2/health/live%")),
    BAD("% with one digit", TARGET("/v2/health/live%4")),
    BAD("% with other characters", TARGET("/v2/health/live%zz")),
    BAD("a fragment", TARGET("/v2/health/live#a")),
    BAD("a backslash", TARGET("/v2\\health\\live")),
    BAD("quotes", TARGET("/v2/\"health\"")),
    BAD("obs-text in the target", TARGET("/v2/\xc3\xa9")),
    BAD("NUL in the target", "GET /v2/health/live\0 HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("a relative path", TARGET("v2/health/live")),
    GOOD("absolute-form", TARGET("http://other:80/v2/health/live")),
    GOOD("absolute-form in upper case", TARGET("HTTPS://OTHER/v2/health/live?x")),
    CODE("absolute-form without a path", TARGET("http://other"), 200),
    BAD("absolute-form without a host", TARGET("http:///v2/health/live")),
    BAD("absolute-form with a user", TARGET("http://user@other/v2/health/live")),
    BAD("absolute-form of another scheme", TARGET("ftp://other/v2/health/live")),
    BAD("absolute-form with a wrong port", TARGET("http://other:8x/v2/health/live")),
    BAD("authority-form", TARGET("other:80")),
    CODE("OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    BAD("GET *", TARGET("*")),
    BAD("OPTIONS **", "OPTIONS ** HTTP/1.1\r\nHost: a\r\n\r\n"),
    ROW("CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", FRAMING_ACCEPTED, 501, false),
    BAD("CONNECT without a port", "CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("CONNECT with a path", "CONNECT /v2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* Host: section 3.2. */
    BAD("no Host", "GET /v2/health/live HTTP/1.1\r\n\r\n"),
    BAD("Host twice", LIVE "Host: a\r\n\r\n"),
    BAD("two hosts", LIVE "HOST: b\r\n\r\n"),
    BAD("Host with a blank", "GET /v2/health/live HTTP/1.1\r\nHost: a b\r\n\r\n"),
    BAD("Host with a path", "GET /v2/health/live HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    BAD("Host with a user", "GET /v2/health/live HTTP/1.1\r\nHost: u@a\r\n\r\n"),
    BAD("Host with a wrong port", "GET /v2/health/live HTTP/1.1\r\nHost: a:b\r\n\r\n"),
    BAD("Host with half an address", "GET /v2/health/live HTTP/1.1\r\nHost: [::1\r\n\r\n"),
    BAD("an invalid Host with absolute-form", "GET http://b/v2 HTTP/1.1\r\nHost: a b\r\n\r\n"),
    GOOD("Host with an address", "GET /v2/health/live HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n"),
    GOOD("an empty Host", "GET /v2/health/live HTTP/1.1\r\nHost:\r\n\r\n"),
    /* Header lines: section 5. */
    BAD("a blank before the colon", LIVE "X : b\r\n\r\n"),
    BAD("Transfer-Encoding with a blank before the colon", INDEX "Transfer-Encoding : chunked\r\n\r\n" END),
    BAD("a tab before the colon", INDEX "Content-Length\t: 14\r\n\r\n" FRAMING_BODY),
    BAD("a folded line", LIVE "X: a\r\n b\r\n\r\n"),
    BAD("a folded line with a tab", LIVE "X: a\r\n\tb\r\n\r\n"),
    BAD("a blank line before the header", "GET /v2 HTTP/1.1\r\n Host: a\r\n\r\n"),
    BAD("a line without a colon", LIVE "X\r\n\r\n"),
    BAD("an empty name", LIVE ": a\r\n\r\n"),
    BAD("a name that is no token", LIVE "X(Y): a\r\n\r\n"),
    BAD("obs-text in a name", LIVE "X\xc3\xa9: a\r\n\r\n"),
    GOOD("obs-text in a value", LIVE "X: \xc3\xa9\xff\r\n\r\n"),
    GOOD("blanks around a value", LIVE "X: \t a \t\r\n\r\n"),
    GOOD("an empty value", LIVE "X:\r\n\r\n"),
    BAD("NUL in a value", LIVE "X: a\0b\r\n\r\n"),
    BAD("a control character in a value", LIVE "X: a\x1b[0m\r\n\r\n"),
    BAD("DEL in a value", LIVE "X: a\x7f\r\n\r\n"),
    BAD("bare LF", "GET /v2/health/live HTTP/1.1\nHost: a\n\n"),
    BAD("bare LF in a value", LIVE "X: a\nY: b\r\n\r\n"),
    BAD("bare LF at the end of the header", LIVE "\n"),
    BAD("bare CR in a value", LIVE "X: a\rY: b\r\n\r\n"),
    BAD("bare CR in the request line", "GET /v2/health/live\r HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("two CR", LIVE "X: a\r\r\n\r\n"),
    STATUS("a header of 20000 bytes", LIVE "X: " LARGE "\r\n\r\n", 431),
    GOOD("99 lines", "GET /v2/health/live HTTP/1.1\r\nHost: a\r\n" TEN_LINES TEN_LINES TEN_LINES TEN_LINES "\r\n"),
    STATUS("101 lines", LIVE HUNDRED_LINES "\r\n", 431),
    /* Content-Length: section 6.2, RFC 9110, section 8.6. */
    GOOD("a body", INDEX "Content-Length: 14\r\n\r\n" FRAMING_BODY),
    GOOD("leading zeros of a length", INDEX "Content-Length: 0014\r\n\r\n" FRAMING_BODY),
    CODE("a body of GET", LIVE "Content-Length: 14\r\n\r\n" FRAMING_BODY, 200),
    BAD("two equal lengths", INDEX "Content-Length: 14\r\nContent-Length: 14\r\n\r\n" FRAMING_BODY),
    BAD("two different lengths", INDEX "Content-Length: 14\r\nContent-Length: 5\r\n\r\n" FRAMING_BODY),
    BAD("a list of equal lengths", INDEX "Content-Length: 14, 14\r\n\r\n" FRAMING_BODY),
    BAD("a list of different lengths", INDEX "Content-Length: 5, 14\r\n\r\n" FRAMING_BODY),
    BAD("+14", INDEX "Content-Length: +14\r\n\r\n" FRAMING_BODY),
    BAD("-14", INDEX "Content-Length: -14\r\n\r\n" FRAMING_BODY),
    BAD("1 4", INDEX "Content-Length: 1 4\r\n\r\n" FRAMING_BODY),
    BAD("0xe", INDEX "Content-Length: 0xe\r\n\r\n" FRAMING_BODY),
    BAD("14.0", INDEX "Content-Length: 14.0\r\n\r\n" FRAMING_BODY),
    BAD("no length in Content-Length", INDEX "Content-Length:\r\n\r\n"),
    ROW("a length above 2^64", INDEX "Content-Length: 99999999999999999999\r\n\r\n", FRAMING_INCOMPLETE, 413, false),
    MORE("a partial body", INDEX "Content-Length: 14\r\n\r\n{\"read"),
    /* Transfer-Encoding: sections 6.1 and 6.3. */
    GOOD("chunked", CHUNKED DATA END),
    GOOD("Chunked", INDEX "Transfer-Encoding: Chunked\r\n\r\n" DATA END),
    BAD("Content-Length and Transfer-Encoding", INDEX "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n" END),
    BAD("Transfer-Encoding and Content-Length", INDEX "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n" END),
    BAD("chunked twice", INDEX "Transfer-Encoding: chunked, chunked\r\n\r\n" END),
    BAD("chunked on two lines", INDEX "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" END),
    BAD("chunked not last", INDEX "Transfer-Encoding: chunked, gzip\r\n\r\n" END),
    BAD("chunked, identity", INDEX "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" END),
    BAD("identity", INDEX "Transfer-Encoding: identity\r\n\r\n"),
    BAD("xchunked", INDEX "Transfer-Encoding: xchunked\r\n\r\n" END),
    BAD("chunked with a parameter", INDEX "Transfer-Encoding: chunked;q=1\r\n\r\n" END),
    BAD("quoted chunked", INDEX "Transfer-Encoding: \"chunked\"\r\n\r\n" END),
    BAD("an empty Transfer-Encoding", INDEX "Transfer-Encoding:\r\n\r\n"),
    BAD("a vertical tab before chunked", INDEX "Transfer-Encoding: \x0b"
                                               "chunked\r\n\r\n" END),
    STATUS("gzip, chunked", INDEX "Transfer-Encoding: gzip, chunked\r\n\r\n" END, 501),
    STATUS("gzip and chunked on two lines", INDEX "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" END,
           501),
    BAD("chunked in HTTP/1.0",
        "POST /v2/repository/index HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" DATA END),
    /* Chunks: section 7.1. */
    GOOD("two chunks", CHUNKED "1\r\n{\r\nD\r\n\"ready\":true}\r\n" END),
    GOOD("zeros before a size", CHUNKED "000e\r\n" FRAMING_BODY "\r\n000\r\n\r\n"),
    GOOD("extensions", CHUNKED "e;a;b=c ; d=\"e;\\\"\"\r\n" FRAMING_BODY "\r\n0;f=g\r\n\r\n"),
    BAD("an extension without a name", CHUNKED "e;\r\n" FRAMING_BODY "\r\n" END),
    BAD("an extension without a value", CHUNKED "e;a=\r\n" FRAMING_BODY "\r\n" END),
    BAD("bare LF in an extension", CHUNKED "e;a\n" FRAMING_BODY "\r\n" END),
    BAD("bare CR in a quoted extension", CHUNKED "e;a=\"\r\"\r\n" FRAMING_BODY "\r\n" END),
    BAD("extensions of 20000 bytes", CHUNKED "e;a=" LARGE "\r\n" FRAMING_BODY "\r\n" END),
    BAD("a blank before a size", CHUNKED " e\r\n" FRAMING_BODY "\r\n" END),
    BAD("a blank after a size", CHUNKED "e \r\n" FRAMING_BODY "\r\n" END),
    BAD("0x before a size", CHUNKED "0xe\r\n" FRAMING_BODY "\r\n" END),
    BAD("a sign before a size", CHUNKED "+e\r\n" FRAMING_BODY "\r\n" END),
    BAD("no size", CHUNKED "\r\n" FRAMING_BODY "\r\n" END),
    BAD("a size of 17 digits", CHUNKED "10000000000000000\r\n"),
    STATUS("a size of 2^64-1", CHUNKED "ffffffffffffffff\r\n", 413),
    STATUS("sizes whose sum overflows", CHUNKED "1\r\na\r\nffffffffffffffff\r\n", 413),
    BAD("a chunk that is longer than its size", CHUNKED "d\r\n" FRAMING_BODY "\r\n" END),
    BAD("bare LF after a size", CHUNKED "e\n" FRAMING_BODY "\r\n" END),
    BAD("bare LF after the data", CHUNKED "e\r\n" FRAMING_BODY "\n" END),
    BAD("bare CR after a size", CHUNKED "e\r" FRAMING_BODY "\r\n" END),
    MORE("no last chunk", CHUNKED DATA),
    MORE("no empty line at the end", CHUNKED DATA "0\r\n"),
    /* Trailers: section 7.1.2; RFC 9110, section 6.5. */
    GOOD("a trailer", CHUNKED DATA "0\r\nX-Sum: 1\r\nY:\r\n\r\n"),
    BAD("Content-Length as a trailer", CHUNKED DATA "0\r\nContent-Length: 14\r\n\r\n"),
    BAD("Transfer-Encoding as a trailer", CHUNKED DATA "0\r\ntransfer-encoding: chunked\r\n\r\n"),
    BAD("Host as a trailer", CHUNKED DATA "0\r\nHost: b\r\n\r\n"),
    BAD("Authorization as a trailer", CHUNKED DATA "0\r\nAuthorization: Bearer x\r\n\r\n"),
    BAD("a folded trailer", CHUNKED DATA "0\r\nX: 1\r\n 2\r\n\r\n"),
    BAD("a trailer with a blank before the colon", CHUNKED DATA "0\r\nX : 1\r\n\r\n"),
    BAD("a trailer without a colon", CHUNKED DATA "0\r\nX\r\n\r\n"),
    BAD("NUL in a trailer", CHUNKED DATA "0\r\nX: a\0\r\n\r\n"),
    BAD("bare LF after a trailer", CHUNKED DATA "0\r\nX: a\n\r\n"),
    STATUS("trailers of 20000 bytes", CHUNKED DATA "0\r\nX: " LARGE "\r\n\r\n", 431),
    /* The connection: section 9; Expect: RFC 9110, section 10.1.1; Upgrade: section 7.8. */
    LAST("Connection: close", LIVE "Connection: x, Close\r\n\r\n"),
    GOOD("Connection: keep-alive", LIVE "Connection: keep-alive\r\n\r\n"),
    LAST("close and keep-alive", LIVE "Connection: keep-alive\r\nConnection: close\r\n\r\n"),
    GOOD("Upgrade", LIVE "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"),
    GOOD("Expect: 100-continue", INDEX "Expect: 100-Continue\r\nContent-Length: 14\r\n\r\n" FRAMING_BODY),
    GOOD("Expect: 100-continue without a body", LIVE "Expect: 100-continue\r\n\r\n"),
    STATUS("Expect: other", INDEX "Expect: other\r\nContent-Length: 14\r\n\r\n" FRAMING_BODY, 417),
    LAST("Expect in HTTP/1.0",
         "POST /v2/repository/index HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 14\r\n\r\n" FRAMING_BODY),
};
const size_t framing_case_count = sizeof framing_cases / sizeof framing_cases[0];

char *framing_text(const framing_case *row, size_t *out_bytes)
{
    enum { FILL = 20000 };
    const char *mark = memchr(row->text, 1, row->bytes);
    size_t before = mark != NULL ? (size_t)(mark - row->text) : row->bytes, rest = row->bytes - before;
    char *text = malloc(row->bytes + FILL);

    *out_bytes = 0;
    if (text == NULL)
        return NULL;
    memcpy(text, row->text, before);
    *out_bytes = row->bytes;
    if (mark != NULL) {
        memset(text + before, 'a', FILL);
        memcpy(text + before + FILL, mark + 1, rest - 1);
        *out_bytes = row->bytes - 1 + FILL;
    }
    return text;
}
