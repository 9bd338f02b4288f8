"""Sends requests at a fixed rate, independent of replies (an open loop): binary REST requests of one row of ones.

    serve_open_loop.py PORT MODEL INPUT FLOATS RATE SECONDS

Arrivals are random (Poisson). Latency is measured from the scheduled time of a request. Prints the numbers of
requests and failures, and the 50th and 99th percentile and the maximum in milliseconds.
"""
import asyncio, json, random, sys, time


async def connection(port, message, work, latencies, failed):
    reader = writer = None
    while True:
        due = await work.get()
        if due is None:
            return
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length"))
            await reader.readexactly(size)
            if b" 200 " not in head[:20]:
                failed.append(head[:20])
        except (OSError, asyncio.IncompleteReadError) as error:
            failed.append(error)
            writer = None
        latencies.append(time.monotonic() - due)


async def main(port, model, name, floats, rate, seconds):
    body = json.dumps({"inputs": [{"name": name, "shape": [1, floats], "datatype": "FP32",
                                   "parameters": {"binary_data_size": 4 * floats}}],
                       "parameters": {"binary_data_output": True}}).encode()
    head = (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: {len(body)}\r\n"
            f"Content-Length: {len(body) + 4 * floats}\r\n\r\n").encode()
    message, work, latencies, failed = head + body + b"\0\0\x80\x3f" * floats, asyncio.Queue(), [], []
    many = [asyncio.create_task(connection(port, message, work, latencies, failed)) for _ in range(256)]
    rng, due = random.Random(1), time.monotonic()
    end = due + seconds
    while due < end:
        due += rng.expovariate(rate)
        await asyncio.sleep(max(0, due - time.monotonic()))
        work.put_nowait(due)
    for _ in many:
        work.put_nowait(None)
    await asyncio.gather(*many)
    latencies.sort()
    at = lambda part: 1000 * latencies[min(len(latencies) - 1, int(part * len(latencies)))]
    print(f"{len(latencies)} {len(failed)} {at(.5):.1f} {at(.99):.1f} {at(1):.1f}")


asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6])))
