"""What moto leaves of a stack that it deletes, and by which it then fails: route tables, gateways, launch templates and
placement groups."""
import contextlib
import os

import boto3
from botocore.exceptions import ClientError


def clear(stack, region):
    kinds = {"endpoint_url": os.environ["AWS_ENDPOINT_URL"], "region_name": region}
    ec2, formation = boto3.client("ec2", **kinds), boto3.client("cloudformation", **kinds)
    found = {}
    with contextlib.suppress(ClientError):
        for resource in formation.describe_stack_resources(StackName=stack)["StackResources"]:
            found.setdefault(resource.get("ResourceType"), []).append(resource.get("PhysicalResourceId"))
    for table in found.get("AWS::EC2::RouteTable", []):
        with contextlib.suppress(ClientError):
            for described in ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"]:
                for association in described["Associations"]:
                    ec2.disassociate_route_table(AssociationId=association["RouteTableAssociationId"])
            ec2.delete_route_table(RouteTableId=table)
    for gateway in found.get("AWS::EC2::InternetGateway", []):
        with contextlib.suppress(ClientError):
            for vpc in found.get("AWS::EC2::VPC", []):
                ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
            ec2.delete_internet_gateway(InternetGatewayId=gateway)
