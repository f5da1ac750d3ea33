# disinto itself as a service job of the Nomad cluster on which its sessions run: see docs/nomad.md.
#
#   nomad var put -out none nomad/jobs/disinto secrets=@secrets.env
#   nomad job run -var dir=/srv/disinto-factory docker/nomad/disinto.nomad.hcl
#
# One node has the host volume disinto-factory, which is the folder `dir`: etc/factory.toml with prompts/ beside it is
# yours, state/ is disinto's. raw_exec mounts no volumes, so the job asks for the volume to be placed on that node, and
# finds it by its path. Tried with raw_exec on Nomad 2.0.6, and not with the driver docker.

variable "dir" {
  description = "the folder of the host volume disinto-factory"
  default     = "/srv/disinto-factory"
}

variable "program" {
  description = "the path of disinto on the node"
  default     = "/usr/local/bin/disinto"
}

job "disinto" {
  type        = "service"
  datacenters = ["*"]

  group "supervisor" {
    # One supervisor for one state directory.
    count = 1

    volume "factory" {
      type   = "host"
      source = "disinto-factory"
    }

    # It is started again where its state directory is, for ever, and nowhere else.
    restart {
      attempts = 5
      interval = "5m"
      delay    = "15s"
      mode     = "delay"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    disconnect {
      lost_after = "720h"
      replace    = false
      reconcile  = "keep_original"
    }

    # The control room, with listen = "0.0.0.0:7070", listen_token and listen_hosts in factory.toml.
    # network {
    #   port "room" {
    #     static = 7070
    #   }
    # }

    task "disinto" {
      driver = "raw_exec"

      config {
        command = var.program
        args    = ["run", "--config", "${var.dir}/etc/factory.toml", "--state", "${var.dir}/state"]
      }

      # FORGE_TOKEN=..., FORGE_TOKEN_DEV_QWEN=..., NOMAD_TOKEN=...: what secrets.env has elsewhere.
      template {
        data        = "{{with nomadVar \"nomad/jobs/disinto\"}}{{.secrets}}{{end}}"
        destination = "secrets/secrets.env"
        perms       = "0600"
        change_mode = "restart"
      }

      env {
        DISINTO_SECRETS = "${NOMAD_SECRETS_DIR}/secrets.env"
      }

      # TERM leaves sessions on Nomad running, and ends others within stop_grace (7 s) and 2 s for their claims. Keep
      # this above them, and max_kill_timeout of the node's client above this.
      kill_signal  = "SIGTERM"
      kill_timeout = "20s"

      # Of the supervisor. Sessions on Nomad have their own; those of other threads need theirs here.
      resources {
        cpu    = 200
        memory = 512
      }
    }
  }
}
