"""aws itself, started once: each call is a fork of a process that has read everything already, which takes a tenth of the time.
aws_itself.py SOCKET (by the Python of aws) serves until its standard input ends; with $AWS_SOCKET, aws_itself.py WORDS... is a call."""
import json
import os
import socket
import sys


def call(words):
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(os.environ["AWS_SOCKET"])
        stream = server.makefile("rw")
        stream.write(json.dumps([os.getcwd(), words]) + "\n")
        stream.flush()
        code, out, err = json.loads(stream.readline())
    sys.stdout.write(out)
    sys.stderr.write(err)
    return code


def serve(path):
    import socketserver
    import tempfile
    import threading

    import awscli.clidriver
    import end_of_stack

    driver = awscli.clidriver.create_clidriver()
    for name in ("cloudformation", "ec2", "sts"):
        driver.session.get_service_model(name)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            folder, words = json.loads(self.rfile.readline())
            with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
                os.chdir(folder)
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                if words[:2] == ["cloudformation", "delete-stack"]:
                    end_of_stack.clear(words[words.index("--stack-name") + 1], words[words.index("--region") + 1])
                code = driver.main(words)
                sys.stdout.flush()
                sys.stderr.flush()
                said = []
                for file in (out, err):
                    file.seek(0)
                    said.append(file.read().decode())
            self.wfile.write(json.dumps([code, *said]).encode() + b"\n")

    class Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
        pass

    with Server(path, Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print("ready", flush=True)
        sys.stdin.read()
        os.unlink(path)


if __name__ == "__main__":
    if "AWS_SOCKET" in os.environ:
        sys.exit(call(sys.argv[1:]))
    serve(sys.argv[1])
