"""A stand-in for aws that keeps its stacks in a file: $AWS_STATE. It reads a stack's resources from its template, makes them in order,
and answers and refuses as CloudFormation does. $AWS_FAIL_AT=K lets the K-th call fail: before it has done anything, or with
$AWS_FAIL_MODE=after when all is done, as a connection that breaks does. $AWS_RESOURCE_FAILS=NAME lets that resource of a stack not be
made (or not be deleted), for the reason $AWS_REASON. $AWS_ZONES="TYPE=ZONE,ZONE TYPE=ZONE" are the zones of sizes, $AWS_IMAGE is what a path of the
parameter store means today. $AWS_SLOW=N: a stack is in progress for N questions. Every call is a line of $AWS_STATE.log."""
import fcntl
import json
import os
import re
import sys

STATE = os.environ["AWS_STATE"]
IMAGE = os.environ.get("AWS_IMAGE", "ami-0123456789abcdef0")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBeenMadeForTheTestsOfTriremeOnlyXXXXXXXXXXXX"
CHANGEABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")


class Refused(Exception):
    pass


def parse(words):
    action, flags, at = [], {}, 0
    while at < len(words) and not words[at].startswith("--"):
        action.append(words[at])
        at += 1
    while at < len(words):
        name, values = words[at], []
        at += 1
        while at < len(words) and not words[at].startswith("--"):
            values.append(words[at])
            at += 1
        flags[name] = values
    return " ".join(action), flags


def resources_of(text):
    """Logical name -> {type, text}, in the order written. A path of the parameter store is resolved each time."""
    found, name = {}, None
    image = re.search(r"  Image:\n    Type: (\S+)\n    Default: (\S+)", text)
    if image:
        text = text.replace("!Ref Image", IMAGE if image[1].startswith("AWS::SSM") else image[2])
    for line in text[text.index("\nResources:\n") + 12:].splitlines():
        if re.fullmatch(r"  \w+:", line):
            name = line.strip()[:-1]
            found[name] = ""
        elif name:
            found[name] += line + "\n"
    made = {name: {"type": re.search(r"Type: (\S+)", block)[1], "text": block, "tags": dict(re.findall(r'\{Key: "?([^",]+)"?, Value: "([^"]*)"\}', block))}
            for name, block in found.items()}
    for name, one in made.items():
        for used in re.findall(r"!Ref (\w+)|!GetAtt (\w+)\.|DependsOn: (\w+)", one["text"]):
            used = "".join(used)
            if used not in made and f"\n  {used}:\n" not in text:
                raise Refused(f"An error occurred (ValidationError): Template format error: Unresolved resource dependencies [{used}] in the Resources block of the template")
    return made


class Aws:
    def __init__(self):
        self.state = {"calls": 0, "numbers": 0, "stacks": {}, "made": []}
        if os.path.exists(STATE):
            with open(STATE) as file:
                self.state = json.load(file)

    def save(self):
        with open(STATE + ".new", "w") as file:
            json.dump(self.state, file, indent=1)
        os.replace(STATE + ".new", STATE)

    def stack(self, flags):
        name = flags["--stack-name"][0]
        if name not in self.state["stacks"]:
            raise Refused(f"An error occurred (ValidationError) when calling the DescribeStacks operation: Stack with id {name} does not exist")
        return self.state["stacks"][name]

    def template(self, flags):
        body = flags["--template-body"][0]
        with open(body.removeprefix("file://")) as file:
            text = file.read()
        if len(text) > 51200:
            raise Refused("An error occurred (ValidationError): 1 validation error detected: Value at 'templateBody' failed to satisfy constraint: Member must have length less than or equal to 51200")
        return text

    def event(self, stack, name, status, reason=""):
        stack["events"].insert(0, {"LogicalResourceId": name, "ResourceStatus": status, "ResourceStatusReason": reason})

    def make(self, stack, name, one):
        """Whether it could be made."""
        if name == os.environ.get("AWS_RESOURCE_FAILS"):
            self.event(stack, name, "CREATE_FAILED", os.environ.get("AWS_REASON", "the stand-in was told to fail"))
            return False
        self.state["numbers"] += 1
        stack["resources"][name] = one | {"id": f"i-{self.state['numbers']:017x}"}
        self.event(stack, name, "CREATE_COMPLETE")
        return True

    def set_status(self, stack, status):
        stack["status"] = status
        stack["in_progress"] = int(os.environ.get("AWS_SLOW", "0"))

    def begin(self, stack, status):
        self.event(stack, "trireme-sea", status, "User Initiated")

    def create(self, flags):
        name = flags["--stack-name"][0]
        if name in self.state["stacks"]:
            raise Refused(f"An error occurred (AlreadyExistsException) when calling the CreateStack operation: Stack [{name}] already exists")
        if flags.get("--on-failure") != ["DO_NOTHING"]:
            raise Refused("the stand-in keeps what failed")
        text = self.template(flags)
        wanted = resources_of(text)
        tags = dict((pair.split(",", 1)[0].removeprefix("Key="), pair.split(",", 1)[1].removeprefix("Value=")) for pair in flags["--tags"])
        stack = self.state["stacks"][name] = {"tags": tags, "text": text, "resources": {}, "events": []}
        self.begin(stack, "CREATE_IN_PROGRESS")
        whole = all(self.make(stack, key, one) for key, one in wanted.items())  # stops at the first that fails
        self.set_status(stack, "CREATE_COMPLETE" if whole else "CREATE_FAILED")

    def update(self, flags):
        stack = self.stack(flags)
        if stack["status"] not in CHANGEABLE:
            raise Refused(f"An error occurred (ValidationError) when calling the UpdateStack operation: Stack:arn:aws:cloudformation:x is in {stack['status']} state and can not be updated.")
        text = self.template(flags)
        if text == stack["text"]:
            raise Refused("An error occurred (ValidationError) when calling the UpdateStack operation: No updates are to be performed.")
        wanted, before = resources_of(text), dict(stack["resources"])
        self.begin(stack, "UPDATE_IN_PROGRESS")
        for name, one in wanted.items():
            if name in before and before[name]["text"] == one["text"]:
                continue
            if not self.make(stack, name, one):
                stack["resources"] = before
                self.set_status(stack, "UPDATE_ROLLBACK_COMPLETE")
                return
        stack["resources"] = {name: one for name, one in stack["resources"].items() if name in wanted}
        stack["text"] = text
        self.set_status(stack, "UPDATE_COMPLETE")

    def delete(self, flags):
        name = flags["--stack-name"][0]
        stack = self.state["stacks"].get(name)
        if not stack:
            return
        self.begin(stack, "DELETE_IN_PROGRESS")
        stays = os.environ.get("AWS_RESOURCE_FAILS")
        if stays in stack["resources"]:
            stack["resources"] = {stays: stack["resources"][stays]}
            self.event(stack, stays, "DELETE_FAILED", os.environ.get("AWS_REASON", "the stand-in was told to fail"))
            self.set_status(stack, "DELETE_FAILED")
            return
        del self.state["stacks"][name]

    def instances(self, flags):
        wanted = [one for one in flags["--filters"] if one.startswith("Name=tag:")]
        key, value = re.fullmatch(r"Name=tag:([^,]+),Values=(.*)", wanted[0]).groups()
        found = []
        for stack in self.state["stacks"].values():
            for one in stack["resources"].values():
                if one["type"] == "AWS::EC2::Instance" and (stack["tags"] | one["tags"]).get(key) == value:
                    number = int(one["tags"]["Name"].rsplit("-", 1)[1])
                    launch = stack["resources"].get(f"Node{number}Launch", {"text": ""})["text"]
                    address = {} if "AssociatePublicIpAddress: false" in launch else {"PublicIpAddress": f"203.0.113.{10 + number}"}
                    found.append({"InstanceId": one["id"], "ImageId": re.search(r"ImageId: (\S+)", one["text"])[1] if "ImageId" in one["text"] else "", **address, "State": {"Name": "running"},
                                  "Tags": [{"Key": k, "Value": v} for k, v in (stack["tags"] | one["tags"]).items()]})
        return {"Reservations": [{"Instances": [one]} for one in found]}


def do(aws, action, flags):
    if action == "sts get-caller-identity":
        return {"Account": "1", "Arn": "arn:aws:iam::1:user/tests"}
    if action == "cloudformation create-stack":
        return aws.create(flags)
    if action == "cloudformation update-stack":
        return aws.update(flags)
    if action == "cloudformation delete-stack":
        return aws.delete(flags)
    if action == "cloudformation describe-stacks":
        stack = aws.stack(flags)
        status = stack["status"]
        if stack.get("in_progress", 0) > 0:
            stack["in_progress"] -= 1
            status = status.split("_")[0] + "_IN_PROGRESS"
        return {"Stacks": [{"StackName": flags["--stack-name"][0], "StackStatus": status, "Tags": [{"Key": k, "Value": v} for k, v in stack["tags"].items()]}]}
    if action == "cloudformation describe-stack-events":
        return {"StackEvents": aws.stack(flags)["events"]}
    if action == "ec2 describe-instances":
        return aws.instances(flags)
    if action == "ec2 get-console-output":
        key = KEY[:-4] + flags["--instance-id"][0][-4:]
        return {"Output": f"noise\n-----BEGIN SSH HOST KEY KEYS-----\n{key} root@x\n-----END SSH HOST KEY KEYS-----\n"}
    if action == "ec2 describe-instance-type-offerings":
        if flags["--location-type"] != ["availability-zone"]:
            raise Refused("the stand-in tells zones")
        kind = flags["--filters"][0].split("Values=")[1]
        zones = dict(pair.split("=") for pair in os.environ.get("AWS_ZONES", f"{kind}=us-east-1a,us-east-1b").split())
        return {"InstanceTypeOfferings": [{"InstanceType": kind, "LocationType": "availability-zone", "Location": zone}
                                          for zone in zones.get(kind, "").split(",") if zone]}
    if action == "ssm get-parameter":
        return {"Parameter": {"Name": flags["--name"][0], "Type": "String", "Value": IMAGE}}
    if action == "ec2 describe-images":
        return {"Images": [{"ImageId": flags["--image-ids"][0], "RootDeviceName": os.environ.get("AWS_ROOT", "/dev/sda1")}]}
    if action == "service-quotas get-service-quota":
        return {"Quota": {"Value": float(os.environ.get("AWS_QUOTA", "1000"))}}
    raise Refused(f"'{action}' is not in the stand-in")


def main():
    lock = open(STATE + ".lock", "w")  # calls may be concurrent
    fcntl.flock(lock, fcntl.LOCK_EX)
    aws = Aws()
    aws.state["calls"] += 1
    with open(STATE + ".log", "a") as log:
        log.write(" ".join(sys.argv[1:]) + "\n")
    fails = aws.state["calls"] == int(os.environ.get("AWS_FAIL_AT", "0"))
    try:
        if fails and os.environ.get("AWS_FAIL_MODE") != "after":
            raise Refused("Could not connect to the endpoint URL")
        answer = do(aws, *parse(sys.argv[1:]))
    except Refused as refused:
        answer = refused
    finally:
        aws.save()
    if fails and os.environ.get("AWS_FAIL_MODE") == "after":
        answer = Refused("Connection was closed before we received a valid response")
    if isinstance(answer, Refused):
        print(f"\n{answer}", file=sys.stderr)
        return 254
    if answer is not None:
        print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
